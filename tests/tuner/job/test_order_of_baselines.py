"""The field ``baselines`` of an order: which baselines the best is compared with."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from templates.conv1d.workload import Conv1dWorkload
from tests.tuner.shell import said
from tuner.client.local import Local
from tuner.errors import BadOrder
from tuner.job.order import parse_terms
from tuner.peers import (
    HOST,
    LAYERS,
    PYTORCH,
    groups,
    may_be_installed,
    peers,
    shares_kernel_process,
)

OWN = {"default", "naive"}


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNER_DATABASE_URL", f"sqlite:///{tmp_path / 'convtune.db'}")
    monkeypatch.setenv("TUNER_SIGNING_KEY", str(tmp_path / "key"))


def compared(**given: str) -> set[str]:
    with Local() as local:
        best = local.tune("conv1d", {"M": 64, "N": 3}, target="cpu", trials=1, **given)
    return {row["name"] for row in best.model_dump()["baselines"]}


def test_none_are_the_project_s_own(capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["conv1d", "--M", "64", "--N", "3", "--target", "cpu", "--trials", "1"]
    told = json.loads(said(capsys, "tune", *shape, "--baselines", "none", "--json"))
    assert {row["name"] for row in told["baselines"]} == OWN


@pytest.mark.torch
def test_pytorch_is_compared_alone() -> None:
    found = compared(baselines="pytorch") - OWN
    assert found
    assert found <= {"pytorch", "pytorch 1 thread"}


def test_another_word_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadOrder, match=r"^baselines: .*'all', 'pytorch' or 'none'"):
        parse_terms({"baselines": "scipy"})


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_the_groups_of_an_order(kind: str) -> None:
    assert len(groups(kind)) == len(groups(kind, "all")) == 2
    assert groups(kind, "pytorch") == (LAYERS,)
    assert groups(kind, "none") == ()
    assert shares_kernel_process(LAYERS, kind) == (kind == "cuda")


def test_no_process_is_started_for_libraries_that_are_not_here() -> None:
    assert may_be_installed(HOST)
    assert may_be_installed(PYTORCH) == may_be_installed(LAYERS) == (find_spec("torch") is not None)


@pytest.mark.torch
def test_layers_call_no_other_function_of_pytorch_s() -> None:
    names = [peer.name for peer in peers(Conv1dWorkload(M=64, N=3), "cpu", LAYERS)]
    assert names
    assert {name.removesuffix(" 1 thread") for name in names} == {"pytorch"}
