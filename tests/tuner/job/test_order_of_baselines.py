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


def test_baselines_none_leaves_only_default_and_naive(capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["conv1d", "--M", "64", "--N", "3", "--target", "cpu", "--trials", "1"]
    told = json.loads(said(capsys, "tune", *shape, "--baselines", "none", "--json"))
    assert {row["name"] for row in told["baselines"]} == OWN


@pytest.mark.torch
def test_baselines_pytorch_adds_only_pytorchs_layers() -> None:
    found = compared(baselines="pytorch") - OWN
    assert found
    assert found <= {"pytorch", "pytorch 1 thread"}


def test_unknown_value_of_baselines_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadOrder, match=r"^baselines: .*'all', 'pytorch' or 'none'"):
        parse_terms({"baselines": "scipy"})


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_baselines_field_selects_the_groups_of_peers(kind: str) -> None:
    assert len(groups(kind)) == len(groups(kind, "all")) == 2
    assert groups(kind, "pytorch") == (LAYERS,)
    assert groups(kind, "none") == ()
    assert shares_kernel_process(LAYERS, kind) == (kind == "cuda")


def test_pytorch_groups_are_skipped_if_pytorch_is_not_installed() -> None:
    assert may_be_installed(HOST)
    assert may_be_installed(PYTORCH) == may_be_installed(LAYERS) == (find_spec("torch") is not None)


@pytest.mark.torch
def test_layers_group_has_only_pytorchs_own_convolutions() -> None:
    names = [peer.name for peer in peers(Conv1dWorkload(M=64, N=3), "cpu", LAYERS)]
    assert names
    assert {name.removesuffix(" 1 thread") for name in names} == {"pytorch"}
