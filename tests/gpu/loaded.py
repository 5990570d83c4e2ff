"""Build a configuration on this host, sign the library and load it, as its user would."""

from pathlib import Path
from typing import Any

from templates.template import Config, Template
from templates.workload import Workload
from tests.tuner.small_libraries import describe
from tuner.build.compile import BuildOrder, build, program_of
from tuner.device.detect import detect
from tuner.library.load import Library, load
from tuner.process.child import Child


def loaded(
    work: Workload, template: Template[Any], config: Config, child: Child, path: Path
) -> Library:
    """Return the loaded library of a configuration, which the child built to ``path``."""
    device = child.call(detect, "cuda", timeout=60)
    order = BuildOrder(work.key, program_of(template), config, device.target, path)
    built = child.call(build, order, timeout=120)
    assert built.status == "ok", built.error
    describe(path, work, device, template, config, built.workspace)
    return load(path)
