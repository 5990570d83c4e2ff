"""Trials are recorded for rankers with a real builder and runner."""

import time

from templates.conv1d.workload import Conv1dWorkload
from tests.benchmarks.predicted.record import Sampled, record
from tuner.build.builder import Builder
from tuner.device.detect import detect


def test_record_measures_every_shape_on_a_cpu() -> None:
    """A CPU records one shape after the other."""
    shapes = [Conv1dWorkload(M=M, N=3) for M in (64, 65)]
    until = time.monotonic() + 120
    with Builder(1) as builder:
        made = record(shapes, detect("cpu"), builder, Sampled, [1, 1], until, settle_seconds=0)
    assert [each.shape for each in made] == shapes
    assert [len(each.trials) for each in made] == [2, 2]
