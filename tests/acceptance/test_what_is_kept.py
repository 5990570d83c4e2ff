"""What a successful job stores: trials, a best with its timings and baselines, and its files."""

import hashlib
import json
from typing import Any

import pytest
from processes import Database
from runs import Bench

from db.results import artifacts, best
from templates import operator
from tuner.job.progress import Progress
from tuner.measure.versions import TVM

SHAPE = {"M": 512, "N": 8}
VERSIONS = {each.name: each.version for each in operator("conv1d").templates if each.kind == "cpu"}


def test_successful_job_stores_a_best_with_timings_baselines_and_files(
    database: Database, bench: Bench
) -> None:
    job = database.submit(SHAPE, trials=4, baselines="all")
    seen: list[Progress] = []
    ended = bench.run(database, job, watch=seen.append)
    assert [progress.measured for progress in seen] == [0, 1, 2, 3, 4]
    assert [progress.eta_seconds is None for progress in seen] == [True] + [False] * 4
    assert seen[-1].eta_seconds == 0
    tried = database.trials(job)
    times = [trial.time_us for trial in tried if trial.time_us is not None]
    assert seen[-1].best is not None
    assert seen[-1].best["time_us"] == min(times)
    for trial in tried:
        assert set(trial.seconds) == {"schedule", "build", "check", "run"}
        assert trial.timing is not None
        assert trial.timing["warm"]["median_us"] == trial.time_us
        assert (trial.tvm_version, trial.template_version) == (TVM, VERSIONS[trial.template])

    (found,) = best.lookup(database.engine, job.workload_key)
    assert ended.best is not None
    assert (found.time_us, found.config) == (ended.best["time_us"], ended.best["config"])
    assert found.gflops == pytest.approx(2 * 8 * 519 / found.time_us * 1e-3)
    figures = {"warm", "cold", "call", "empty_us", "clocks", "noise", "finalists"}
    assert set(found.timing) == figures
    assert found.timing["call"]["median_us"] > 0
    own = {json.dumps(each["config"]): each for each in found.timing["finalists"]}
    in_round = own[json.dumps(found.config)]["median_us"]
    assert 0 < found.timing["empty_us"] < found.time_us
    assert found.timing["warm"]["p10_us"] <= found.time_us <= found.timing["warm"]["p90_us"]
    assert found.roofline["bound"] in {"compute", "memory", "launch"}
    assert {"convtune", "timing_protocol", "apache-tvm", "apache-tvm-ffi"} <= set(found.versions)
    naive = next(each for each in found.baselines if each["name"] == "naive")
    assert naive["speedup"] == pytest.approx(naive["time_us"] / in_round)
    numpy = next(each for each in found.baselines if each["name"] == "numpy.convolve")
    assert (naive["level"], numpy["level"]) == ("kernel", "call")
    called = found.timing["call"]["median_us"]
    assert numpy["speedup"] == pytest.approx(numpy["time_us"] / called)
    assert found.threads == manifest_of(database, found)["threads"]

    files = {kind: artifacts.get(database.engine, name) for kind, name in found.artifacts.items()}
    types = {kind: file.media_type for kind, file in files.items()}
    assert types == {
        "library": "application/x-sharedlib",
        "source": "text/x-asm",
        "manifest": "application/json",
        "record": "application/json",
        "signature": "application/json",
    }
    assert b"main" in files["source"].content
    manifest = json.loads(files["manifest"].content)
    library = files["library"].content
    assert manifest["library"] == {
        "sha256": hashlib.sha256(library).hexdigest(),
        "size": len(library),
    }
    assert manifest["workload_key"] == job.workload_key
    assert manifest["config"] == found.config
    record = json.loads(files["record"].content)
    assert record["tuning_record"][1] == [pytest.approx(found.time_us * 1e-6)]


def manifest_of(database: Database, found: best.Best) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(
        artifacts.get(database.engine, found.artifacts["manifest"]).content
    )
    return manifest
