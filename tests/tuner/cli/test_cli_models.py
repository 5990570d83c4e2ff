"""``tuner model`` with a file of workloads: it is one order, tuned here or by a service."""

import json
import re
import time
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from service_process import Service
from stored_best import claimed

from db import models, queue
from db.contract.order import JobFilter
from db.results import best
from tests.tuner import shell
from tuner.client.client import Client
from tuner.client.local import Local
from tuner.job.model_order import make_model_order
from tuner.job.order import parse_terms
from tuner.settings import Settings

LAYERS: list[dict[str, Any]] = [
    {"operator": "conv1d", "workload": {"M": 64, "N": 3}, "calls": 3},
    {"operator": "conv1d", "workload": {"M": 65, "N": 3}},
    {"operator": "conv1d", "workload": {"M": 64, "N": 3, "mode": "full"}},
]


@pytest.fixture(autouse=True)
def signing_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNER_SIGNING_KEY", str(tmp_path / "key"))


def written(folder: Path, workloads: Any = LAYERS, name: str = "small_net.json") -> str:
    path = folder / name
    path.write_text(workloads if isinstance(workloads, str) else json.dumps(workloads))
    return str(path)


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[Any, str, str]:
    """Run ``tuner model ARGUMENTS``; return exit code, standard output, and standard error."""
    return shell.ran(capsys, "model", *arguments)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    return shell.said(capsys, "model", *arguments)


def test_model_is_tuned_here_and_an_equal_order_makes_no_new_jobs(
    engine: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model is tuned in this process. If the same layers are ordered again, by the command or
    from Python, no new jobs are made."""
    file = written(tmp_path)
    order = ("tune", file, "--target", "cpu", "--trials", "1", "--label", "of a net")
    order += ("--baselines", "none")
    code, out, err = ran(capsys, *order)
    assert code == 0, err
    [model] = models.list_models(engine).items
    assert (model.name, model.state, model.terms["target"]) == ("small_net", "succeeded", "cpu")
    jobs = queue.list_jobs(engine).items
    assert {(job.workload["M"], job.state, job.label) for job in jobs} == {
        (64, "succeeded", "of a net"),
        (65, "succeeded", "of a net"),
    }
    assert all(best.lookup(engine, job.workload_key, "cpu") for job in jobs)
    assert f"model {model.id}, 2 workloads" in err
    assert "1 of 2: conv1d --M 64 --N 3" in err
    assert f"model     {model.id}\nname      small_net\nstate     succeeded\n" in out
    assert re.search(r"succeeded     4 ×  +\w+ [\d.]+ µs .*conv1d --M 64 --N 3$", out, re.MULTILINE)
    told = json.loads(said(capsys, *order, "--name", "twice", "--json"))
    assert (told["name"], told["state"]) == ("twice", "succeeded")
    assert {layer["job"] for layer in told["layers"]} == {job.id for job in jobs}
    assert len(queue.list_jobs(engine).items) == 2
    with Local(Settings(), cache=tmp_path / "cache") as local:
        found = local.tune_model("third", LAYERS, target="cpu", trials=1, baselines="none")
    assert [layer.calls for layer in found.layers] == [4, 1]


def test_model_tune_follows_a_model_at_a_service(
    service: Service, client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layers = [{"operator": "conv1d", "workload": {"M": m, "N": 3}} for m in (970, 971)]
    file = written(tmp_path, layers)

    def work() -> None:
        for state in ("succeeded", "failed"):
            while not queue.list_jobs(service.engine, JobFilter(state="queued")).items:
                time.sleep(0.05)
            job = claimed(service.engine)
            queue.finish(service.engine, job.id, job.attempt, state, "no luck")  # type: ignore[arg-type]

    worker = Thread(target=work)
    worker.start()
    code, out, err = ran(
        capsys, "tune", file, "--target", "cpu", "--patience", "5", "--service", service.url
    )
    worker.join()
    model = next(client.models())
    assert (model.name, model.state, model.patience) == ("small_net", "failed", 5)
    assert code == 1
    assert f"{service.url}/ui/models/{model.id}" in err
    assert "failed: 1 of 2 jobs did not succeed" in err
    assert f"model     {model.id}" in out


def test_models_are_listed_shown_and_cancelled(
    engine: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "list") == ""
    made = [
        models.submit(engine, make_model_order(name, LAYERS, parse_terms({"trials": 8}), "cpu"))[0]
        for name in ("first [b]", "second")
    ]
    lines = said(capsys, "list").splitlines()
    assert [line.split()[0] for line in lines] == [model.id for model in reversed(made)]
    assert re.search(r"queued +0/2 +0/16 +first \[b\]$", lines[1])
    page = json.loads(said(capsys, "list", "--limit", "1", "--json"))
    rest = json.loads(said(capsys, "list", "--cursor", page["next_cursor"], "--json"))
    assert [item["name"] for item in rest["items"]] == ["first [b]"]
    assert "older ones: --cursor" in said(capsys, "list", "--limit", "1")
    shown = said(capsys, "show", made[0].id[:12])
    assert "name      first [b]\nstate     queued\n" in shown
    assert json.loads(said(capsys, "show", made[0].id, "--json"))["layers"][0]["calls"] == 4
    assert said(capsys, "cancel", made[0].id) == f"cancelled {made[0].id}\n"
    # The second model has the same jobs, so they go on.
    assert {job.state for job in queue.list_jobs(engine).items} == {"queued"}
    told = json.loads(said(capsys, "cancel", made[1].id, "--json"))
    assert {layer["state"] for layer in told["layers"]} == {"cancelled"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{no", "is no JSON"),
        ('[{"operator": "conv1d", "workload": {"M": 9, "M": 8, "N": 3}}]',
         "'M' is given more than once; give it once"),
        ('{"operator": "conv1d"}', "is no list of workloads; write a list as POST /models"),
        ([5], "is no list of workloads"),
        ([], "workloads: must have at least 1 item(s), but has 0"),
        ([LAYERS[0], {"operator": "conv9d", "workload": {}}], "workloads.1.operator: "),
        ([LAYERS[0], {"operator": "conv1d", "workload": {"M": 0, "N": 3}}],
         "workloads.1.workload.M: "),
        ([{**LAYERS[0], "calls": 0}], "workloads.0.calls: "),
        ([{**LAYERS[0], "trials": 3}], "workloads.0.trials: "),
    ],
)  # fmt: skip
def test_model_tune_refuses_a_malformed_file_in_one_line(
    engine: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: Any, says: str
) -> None:
    code, out, err = ran(capsys, "tune", written(tmp_path, content), "--target", "cpu")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert says in err
    assert queue.list_jobs(engine).items == []


def test_model_tune_refuses_batch_with_a_file_and_a_name_without_pytorch(
    engine: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = ran(capsys, "tune", written(tmp_path), "--batch", "3")
    assert (code, out, err) == (
        1, "", "tuner: batch: a file names all shapes itself; leave --batch out\n"
    )  # fmt: skip
    if find_spec("torch") is None:
        code, out, err = ran(capsys, "tune", "timm:mobilenetv2_100")
        assert (code, out) == (1, "")
        assert "PyTorch, which builds a model, is not installed: pip install torch" in err
    assert queue.list_jobs(engine).items == []


@pytest.mark.parametrize("command", ["show", "cancel"])
def test_model_commands_refuse_an_unknown_model(
    engine: Any, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    code, out, err = ran(capsys, command, "nosuch")
    assert (code, out) == (1, "")
    assert "there is no model 'nosuch'; see tuner model list" in err
    assert "No such file" in ran(capsys, "tune", "nosuch.json")[2]
