"""``tuner export --package``: a package of all bests, of a model's layers, or of a list."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small_libraries import workload
from sqlalchemy import Engine
from stored_best import store

from db import models
from db.contract.order import Terms
from db.sql.engine import migrate, open_engine
from tuner.cli import app as cli
from tuner.job.model_order import make_model_order

Run = Callable[..., tuple[str, str]]


@pytest.fixture(scope="module")
def url(
    tmp_path_factory: pytest.TempPathFactory, libraries: dict[str, Path]
) -> Iterator[tuple[str, Engine]]:
    """Yield the URL and the engine of a database with two bests: ``full`` and ``depthwise``."""
    named = f"sqlite:///{tmp_path_factory.mktemp('database') / 'convtune.db'}"
    engine = open_engine(named)
    migrate(engine)
    store(engine, libraries["full-parallel"])
    store(engine, libraries["depthwise-serial"])
    yield named, engine
    engine.dispose()


@pytest.fixture
def run(
    url: tuple[str, Engine],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNER_DATABASE_URL", url[0])

    def run(*arguments: str, code: int = 0) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["tuner", "export", "--package", *arguments])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        out, err = capsys.readouterr()
        assert (exit_.value.code or 0) == code, err
        return out, err

    return run


def ordered(*names: str, **changed: Any) -> list[dict[str, Any]]:
    works = [workload(name) for name in names]
    return [{"operator": each.operator, "workload": each.model_dump() | changed} for each in works]


def packed(folder: Path) -> list[str]:
    (table,) = folder.glob("build/*/kernels.json")
    return sorted(row["file"].partition("-")[0] for row in json.loads(table.read_text()))


def test_export_packs_all_bests(run: Run, tmp_path: Path) -> None:
    out, err = run("my_kernels")
    assert packed(tmp_path / "my_kernels") == ["conv1d", "depthwise_conv2d"]
    assert out.splitlines()[0].startswith("my_kernels: 2 kernels for ")
    assert out.splitlines()[1] == (
        "to use it: pip install ./my_kernels; python -m my_kernels.check"
    )
    assert err == ""
    _, err = run("my_kernels", code=1)
    assert "my_kernels: is there already; name another folder, or remove it" in err


def test_printed_pip_command_quotes_the_folder(run: Run) -> None:
    out, _ = run("my kernels; for a")
    assert "pip install './my kernels; for a'; python -m my_kernels_for_a.check" in out


def test_export_packs_a_models_layers_or_a_list(
    run: Run, url: tuple[str, Engine], tmp_path: Path
) -> None:
    order = make_model_order("small", ordered("depthwise"), Terms(), "cpu")
    model, _ = models.submit(url[1], order)
    run("of_a_model", "--model", model.id[:8], "--name", "another-name")
    assert packed(tmp_path / "of_a_model") == ["depthwise_conv2d"]
    assert 'name = "another-name"' in (tmp_path / "of_a_model/pyproject.toml").read_text()
    (tmp_path / "layers.json").write_text(json.dumps(ordered("full")))
    run("of_a_list", "--file", "layers.json", "--target", "cpu")
    assert packed(tmp_path / "of_a_list") == ["conv1d"]


def test_export_refuses_a_list_with_an_untuned_workload(run: Run, tmp_path: Path) -> None:
    layers = [*ordered("full"), *ordered("full", N=33)]
    (tmp_path / "layers.json").write_text(json.dumps(layers))
    _, err = run("package", "--file", "layers.json", code=1)
    assert "1 of 2 workloads are not tuned: conv1d --M 16384 --N 33; tune them" in err
    _, err = run("package", "--target", "cuda", code=1)
    assert "there is nothing to pack with --target cuda: tune a shape first" in err
    assert not (tmp_path / "package").exists()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["1", "--file", "layers.json"], "'1' can't name a package"),
        (["class", "--file", "layers.json"], "'class' is a Python keyword"),
        (["k9", "--file", "none.json"], "none.json: No such file"),
        (["k9", "--model", "abcdef"], "there is no model 'abcdef'"),
        (["k9", "--model", "a", "--file", "b"], "--file does not go with --model"),
        (["k9", "--out", "b"], "--out does not go with --package"),
        (["k9", "--format", "autotvm"], "--format does not go with --package"),
    ],
)
def test_export_of_a_package_refuses_bad_arguments(
    run: Run, arguments: list[str], why: str
) -> None:
    _, err = run(*arguments, code=2 if "does not go" in why else 1)
    assert why in err


def test_export_of_a_log_refuses_the_option_model(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tuner", "export", "--model", "abcdef"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "--model needs --package" in capsys.readouterr().err
