"""A search begins with the stored trials of close shapes, from a real database."""

from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy.engine import Engine

import templates
from db import queue
from db.fleet import devices
from db.results import trials
from db.sql.engine import open_engine
from db.sql.schema import migrate
from templates.spaces.union import UnionSpace
from templates.workload import Workload
from tests.benchmarks.predicted.shapes import to_learn
from tests.templates.devices import H200
from tuner.device.device import Device
from tuner.measure.versions import TVM
from tuner.plan.plan import Plan
from tuner.plan.warm_start import MAX_DISTANCE, distance, warm_up
from tuner.search.features import FeatureTable

DEVICE = Device("cuda", "a GPU", H200.arch, 2**34, "a driver", H200, {})


def depthwise(**fields: object) -> Workload:
    shape = {"B": 32, "C": 96, "H": 28, "W": 28, "K": 5} | fields
    return templates.operator("depthwise_conv2d").workload.model_validate(shape)


HERE = depthwise()


def tried(
    engine: Engine, workload: Workload, device_id: int, status: str = "ok", **knobs: object
) -> None:
    """Store a finished job of the workload with one trial on the device. The trial's configuration
    is the template's default, changed by ``knobs``."""
    order = queue.JobOrder(
        operator=workload.operator,
        workload_key=workload.key,
        workload=workload.explicit_fields,
        target="cuda",
        trials=1,
    )
    queue.submit(engine, order)
    job = queue.claim(engine, "worker", ["cuda"], 30)
    assert job is not None
    template = templates.templates_for(workload, H200)[0]
    config = template.default(workload, H200) | knobs
    made = trials.NewTrial(
        device_id, config, template.name, template.version, TVM, status, 1.5, {}, 0.0, None, {}
    )
    trials.add(engine, job.id, job.attempt, [made])
    queue.progress(
        engine, job.id, job.attempt, measured=1, ok=1, failed=0, best=None, eta_seconds=None,
        device_id=device_id,
    )  # fmt: skip
    queue.finish(engine, job.id, job.attempt, "cancelled")


@pytest.mark.parametrize("wrong", [[1, 2], 0, "many", None])
def test_warm_up_leaves_out_configurations_that_no_space_has(tmp_path: Path, wrong: object) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'a.db'}")
    migrate(engine)
    device = devices.upsert_device(engine, DEVICE.fingerprint())
    template = templates.templates_for(depthwise(C=97), H200)[0]
    knobs = dict.fromkeys(template.default(depthwise(C=97), H200).keys() - {"template"}, wrong)
    tried(engine, depthwise(C=97), device.id, "skipped", **knobs)
    assert warm_up(engine, Plan(HERE, DEVICE, "xgb", 0), device.id) == (0, 0)


@pytest.mark.parametrize(
    ("workload", "jobs"),
    [
        (depthwise(B=1, C=240), 1),
        (depthwise(H=56, W=56, K=7), 1),
        (depthwise(bias=True, residual=True, activation="silu"), 1),
        (depthwise(H=14, W=14, K=3, layout="NHWC", dtype="float16"), 0),
    ],
)
def test_warm_up_uses_trials_of_close_shapes_only(
    tmp_path: Path, workload: Workload, jobs: int
) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'a.db'}")
    migrate(engine)
    device = devices.upsert_device(engine, DEVICE.fingerprint())
    tried(engine, workload, device.id)
    plan = Plan(HERE, DEVICE, "xgb", 0)
    assert warm_up(engine, plan, device.id) == (jobs, jobs)
    assert (distance(HERE, workload) <= MAX_DISTANCE) == bool(jobs)
    assert len(plan.ask(8)) == 8
    engine.dispose()


def test_feature_table_of_a_shape_takes_configurations_of_any_other() -> None:
    rng = np.random.default_rng(0)
    spaces: dict[str, list[UnionSpace]] = {}
    drawn = [to_learn("cuda", count, draw) for draw, count in (("all", 12), ("rare", 8))]
    for each in [*chain(*drawn), *to_learn("cuda", 4, "channels")]:
        found = [one.space(each, H200) for one in templates.templates_for(each, H200)]
        spaces.setdefault(each.operator, []).append(UnionSpace(found))
    for own in spaces.values():
        sampled = [(space, space.sample(rng, 8)) for space in own]
        for space, indices in sampled:
            table = FeatureTable(space, lambda _: {})
            for there, others in sampled:
                places = [table.add(there[index], {}) for index in others]
                assert (np.isfinite(table.at(places)).sum(axis=1) > 1).all()
            np.testing.assert_array_equal(
                table.rows(indices), table.at([table.add(space[index], {}) for index in indices])
            )
