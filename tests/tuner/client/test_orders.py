"""Orders from Python. NumPy's integers are accepted as integers. A bad order is refused, before it
is stored, with a TunerError that names the field."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from db import queue
from db.sql.engine import open_engine
from tuner.client.answers import Baseline
from tuner.client.client import Client
from tuner.client.local import Local
from tuner.errors import BadOrder, NotTuned, StillRunning, TunerError, UnknownStrategy
from tuner.job.order import parse_terms, workload_of
from tuner.settings import Settings

SHAPE = {"M": 512, "N": 8}
BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"trials": 0}, "trials", "must be at least 1, but is 0"),
    ({"trials": 10**6}, "trials", "at most 100000"),
    ({"trials": "many"}, "trials", 'must be an integer, but is "many"'),
    ({"trials": 1.5}, "trials", "must be an integer"),
    ({"trials": True}, "trials", "must be an integer"),
    ({"target": "tpu"}, "target", "'auto', 'cpu' or 'cuda', but is \"tpu\""),
    ({"search": "luck"}, "search", "known are: evolutionary, grid"),
    ({"on_existing": "maybe"}, "on_existing", "'reuse' or 'retune'"),
    ({"budget_seconds": -1}, "budget_seconds", "must be more than 0"),
    ({"budget_seconds": float("nan")}, "budget_seconds", "not nan"),
    ({"seed": -1}, "seed", "must be at least 0"),
    ({"seed": np.int64(2**40)}, "seed", "at most 2147483647"),
    ({"patience": object()}, "patience", "give a number"),
    ({"warm_start": "yes"}, "warm_start", "must be true or false"),
    ({"M": 3, "mode": "valid"}, "N", "spans 8 samples, but input and padding have 3"),
    ({"M": 1.5}, "M", "must be an integer, but is 1.5"),
    ({"M": [512]}, "M", "must be an integer, but is a list"),
    ({"M": [object()]}, "M", "give a number"),
    ({"mode": "ful"}, "mode", "'full', 'same', 'valid' or 'causal', but is \"ful\""),
    ({"templates": "direct"}, "templates", "give a list of names, as ['direct']"),
    ({"templates": []}, "templates", "give at least one name"),
    ({"label": "\ud800"}, "label", r"Unicode characters, but is '\ud800'"),
    ({"M": 10**5000}, "M", "larger than any field"),
    ({"M": 10**300}, "M", "must be at most 16777216"),
    ({"Q": 3}, "Q", "is not a field of this request"),
    ({"strid": 3}, "strid", "did you mean stride?"),
    ({"trails": 3}, "trails", "did you mean trials?"),
]


def named(value: Any) -> str:
    """Return a parameter's id for pytest: a string itself, or a dictionary's keys."""
    return value if isinstance(value, str) else "-".join(value)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    """Yield a local source; no job may be stored in its database by the end of the test."""
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'convtune.db'}")
    with Local(settings, cache=tmp_path / "cache") as opened:
        yield opened
    engine = open_engine(settings.database_url)
    assert queue.list_jobs(engine).items == []
    engine.dispose()


@pytest.mark.parametrize(("wrong", "field", "says"), BAD, ids=named)
def test_local_refuses_a_bad_order_and_names_the_field(
    local: Local, wrong: dict[str, Any], field: str, says: str
) -> None:
    with pytest.raises(BadOrder) as refused:
        local.tune("conv1d", **{**SHAPE, **wrong})
    assert isinstance(refused.value, TunerError)
    assert refused.value.field == field
    assert str(refused.value).startswith(f"{field}: ")
    assert says in str(refused.value)


@pytest.mark.parametrize("operator", ["conv9d", ["conv1d"], None])
def test_local_refuses_an_unknown_operator(local: Local, operator: Any) -> None:
    for ask in (local.tune, local.best):
        with pytest.raises(BadOrder, match="unknown operator"):
            ask(operator, SHAPE)


def test_local_refuses_a_bad_look_up_and_an_unknown_strategy(local: Local) -> None:
    with pytest.raises(BadOrder, match="spans 8 samples"):
        local.best("conv1d", M=3, N=8, mode="valid")
    with pytest.raises(BadOrder, match="give a list of names"):
        local.best("conv1d", SHAPE, templates="direct")
    with pytest.raises(UnknownStrategy):
        local.tune("conv1d", SHAPE, search="luck")


def test_field_given_in_the_mapping_and_by_name_is_refused(client: Client, local: Local) -> None:
    asks = (client.best, client.submit, client.verify_nearest, client.tune, local.best, local.tune)
    for ask in asks:
        with pytest.raises(BadOrder, match=r"^N: is given in the mapping and by name; give it"):
            ask("conv1d", SHAPE, N=9)


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint16])
def test_local_accepts_numpys_integers(local: Local, kind: type[np.integer[Any]]) -> None:
    workload = workload_of("conv1d", {"M": kind(512), "N": kind(8), "max_error": np.float32(0.025)})
    assert workload == workload_of("conv1d", SHAPE, {"max_error": float(np.float32(0.025))})
    assert parse_terms(
        {"trials": kind(3), "seed": kind(7), "budget_seconds": np.float64(2)}
    ) == parse_terms({"trials": 3, "seed": 7, "budget_seconds": 2.0})
    with pytest.raises(NotTuned):
        local.best("conv1d", M=kind(512), N=kind(8))


def test_client_sends_numpys_integers_and_refuses_bad_values(client: Client) -> None:
    job = client.submit(
        "conv1d", {"M": np.int64(512)}, N=np.uint8(8), trials=np.int32(3), seed=np.int64(1)
    )
    assert (job.workload["M"], job.trials.requested) == (512, 3)
    assert client.best("conv1d", M=np.int64(16384), N=np.int32(32)).workload["N"] == 32
    for wrong in ({"M": object()}, {"M": 512, "seed": [3j]}, {"budget_seconds": float("inf")}):
        with pytest.raises(BadOrder, match="give a number"):
            client.submit("conv1d", {"N": 8}, **wrong)
    for ask in (client.submit, client.best, client.verify_nearest):
        with pytest.raises(BadOrder, match="give a list of names"):
            ask("conv1d", SHAPE, templates="direct")
    for trials in (0, [3]):
        with pytest.raises(TunerError, match="trials"):
            client.submit("conv1d", SHAPE, trials=trials)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"label": "\ud800"}, "label"),
        ({"mode": "\ud800"}, "mode"),
        ({"N": 10**5000}, "N"),
        ({"templates": []}, "templates"),
    ],
)
def test_client_refuses_values_that_cannot_be_sent(
    client: Client, given: dict[str, Any], field: str
) -> None:
    asks = [client.submit] if field == "label" else [client.submit, client.best]
    for ask in asks:
        with pytest.raises(BadOrder, match=f"^{field}: "):
            ask("conv1d", **{**SHAPE, **given})


def test_padding_is_given_as_four_numbers(client: Client, local: Local) -> None:
    shape: dict[str, Any] = {"B": 1, "C": 4, "H": 9, "W": 9, "K": 3}
    for padding in ([0, 1, 0, 1], (0, np.int64(1), 0, 1), "0,1,0,1"):
        job = client.submit("depthwise_conv2d", shape, padding=padding, trials=1)
        assert job.workload["padding"] == [0, 1, 0, 1]
        with pytest.raises(NotTuned, match="padding=0,1,0,1"):
            client.best("depthwise_conv2d", shape, padding=padding)
        with pytest.raises(NotTuned, match="--padding 0,1,0,1"):
            local.best("depthwise_conv2d", shape, padding=padding)
    for wrong in ([1, 1], [1, 1, 1, -1]):
        with pytest.raises(TunerError, match="top, left, bottom and right"):
            client.submit("depthwise_conv2d", shape, padding=wrong)


def test_baselines_of_a_best_have_attributes(client: Client) -> None:
    best = client.best("conv1d", M=16384, N=32)
    assert best.baselines == [Baseline(name="numpy", time_us=200.0, speedup=10.0)]
    assert (best.baselines[0].name, best.baselines[0].error) == ("numpy", None)


def test_client_says_that_no_worker_can_take_an_order(client: Client) -> None:
    job = client.submit("conv1d", SHAPE, target="cuda", seed=12)
    assert job.waiting is not None
    assert job.waiting.startswith("no worker is alive")
    with pytest.raises(StillRunning, match="with 0 of 64 trials; no worker is alive"):
        client.wait(job, timeout=0.1)
    with pytest.raises(NotTuned, match=f"the job {job.id} is queued; no worker is alive"):
        client.best("conv1d", SHAPE, target="cuda")
