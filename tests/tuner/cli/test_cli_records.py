"""``tuner export`` and ``tuner import``, in this process, over a database with one best."""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import templates
from db import queue
from db.fleet import devices
from db.results import best
from db.results.artifacts import NewArtifact
from db.sql.engine import open_engine
from tests import databases
from tests.foreign_logs import TOPHUB
from tuner.cli import app as cli
from tuner.device import cpu_facts

HALVES = {"workload": ["17", "base64"], "tuning_record": [[[], []], [1e-6], {}, []]}
Run = Callable[..., str]


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    created = databases.created(tmp_path / "one.db")
    monkeypatch.setenv("TUNER_DATABASE_URL", created)
    return created


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*arguments: str, said: str = "", code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["tuner", *arguments])
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(said.encode())))
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        out, err = (stream.decode() for stream in capsysbinary.readouterr())
        assert (exit_.value.code or 0) == code, err
        return err if code else out

    return run


@pytest.fixture(autouse=True)
def tuned(url: str) -> None:
    """Store one best of a conv1d with a time of 2 µs."""
    engine = open_engine(url)
    device = cpu_facts.device()
    workload = templates.operator("conv1d").workload.model_validate({"M": 300, "N": 8})
    template = templates.templates_for(workload, device.limits)[0]
    order = queue.JobOrder.of(
        workload, target="cpu", trials=1, search="random", on_existing="retune"
    )
    queue.submit(engine, order)
    job = queue.claim(engine, "worker", ["cpu"])
    assert job is not None
    new = best.NewBest(
        operator="conv1d",
        workload_key=workload.key,
        workload=workload.model_dump(),
        device_id=devices.upsert_device(engine, device.fingerprint()).id,
        template=template.name,
        template_version=template.version,
        tvm_version="0.27.0",
        config=template.default(workload, device.limits),
        time_us=2.0,
        timing={},
        gflops=None,
        roofline={},
        max_error=None,
        baselines=[],
        trials_measured=1,
        versions={},
    )
    file = NewArtifact(json.dumps(HALVES).encode(), "record", "application/json")
    best.finish_with_bests(engine, job.id, job.attempt, [best.BestWithFiles(new, [file])])
    engine.dispose()


def beside_the_database(folder: Path) -> list[str]:
    """Return the names of all files in the folder that do not belong to the database."""
    return sorted(each.name for each in folder.iterdir() if not each.name.startswith("one.db"))


def test_exported_best_is_imported_as_a_job_of_one_configuration(run: Run, tmp_path: Path) -> None:
    """An exported best is imported again, as a job of its one configuration. Importing it twice
    orders nothing new."""
    text = run("export", "--of", "bests")
    assert json.loads(text)["time_us"] == 2.0
    assert run("export", "--of", "bests", "--job", json.loads(text)["job"][:8]) == text
    run("export", "--of", "bests", "--out", "log.jsonl")
    assert (tmp_path / "log.jsonl").read_text() == text
    [job] = json.loads(run("import", "log.jsonl", "--json"))["jobs"]
    assert (job["configurations"], job["target"], job["created"]) == (1, "cpu", True)
    again = run("import", "-", said=text)
    assert f"{job['id']}  conv1d --M 300 --N 8: 1 on cpu, ordered before" in again
    assert "tuner worker --once" in again
    assert sorted(each.name for each in tmp_path.iterdir() if "db" not in each.name) == [
        "log.jsonl"
    ]


def test_export_writes_metaschedules_database_as_a_folder(run: Run, tmp_path: Path) -> None:
    run("export", "--format", "metaschedule", "--out", "ms")
    assert json.loads((tmp_path / "ms/database_workload.json").read_text()) == HALVES["workload"]
    line = json.loads((tmp_path / "ms/database_tuning_record.json").read_text())
    assert line == [0, HALVES["tuning_record"]]
    assert set(json.loads(run("export", "--format", "metaschedule"))) == {"convtune", *HALVES}
    refusal = run("export", "--format", "metaschedule", "--out", "ms", code=1)
    assert "database_workload.json: is there already" in refusal


def test_import_reads_metaschedules_database_as_a_folder(run: Run, tmp_path: Path) -> None:
    run("export", "--format", "metaschedule", "--out", "ms")
    [job] = json.loads(run("import", "ms", "--json"))["jobs"]
    assert (job["configurations"], job["target"], job["created"]) == (1, "cpu", True)
    refusal = run("import", "ms/database_tuning_record.json", code=1)
    assert "is MetaSchedule's database" in refusal and "give its folder" in refusal
    with (tmp_path / "ms/database_tuning_record.json").open("a") as stream:
        stream.write(json.dumps([0, HALVES["tuning_record"]]) + "\n")
    assert "not imported: record 2: was added by MetaSchedule" in run("import", "ms")


def test_import_orders_the_shapes_of_an_autotvm_log_and_names_refused_records(run: Run) -> None:
    log = "\n".join(map(json.dumps, TOPHUB))
    first, *refused, job, last = run("import", "-", said=log).splitlines()
    assert first == "AutoTVM's log, 3 records: 1 shape to tune"
    assert refused == [
        "not imported: record 1: 'conv2d_nchw.cuda' is a task of another operator",
        "not imported: record 3: its dilation is 1 and 2, but both must be the same",
    ]
    assert job.endswith("depthwise_conv2d --B 1 --C 24 --H 20 --W 30 --K 3: tune on cuda")
    assert "tuner worker" in last
    many = run("import", "-", said="\n".join([log, log]))
    assert "not imported: 2 records, the first is 1: 'conv2d_nchw.cuda'" in many
    assert "tune on cuda, ordered before" in many
    told = json.loads(run("import", "-", "--json", said=log))
    assert (told["format"], told["records"]) == ("AutoTVM's log", 3)
    assert told["jobs"][0]["configurations"] is None
    assert told["refused"][1] == {
        "reason": "its dilation is 1 and 2, but both must be the same", "records": 1, "line": 3
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "says", "code"),
    [
        ("export --format csv", "'csv' is not one of", 2),
        ("export --format metaschedule --of trials", "--of must be bests for metaschedule", 2),
        ("export --operator conv3d", "unknown operator 'conv3d'", 1),
        ("export --job me", "there is no job 'me'", 1),
        ("export --status OK", "'OK' is not one of 'ok', 'schedule_error'", 2),
        ("export --out no/such/folder", "No such file or directory", 1),
        ("export --out one.db", "one.db: is a file of the database itself; name another file", 1),
        ("export --out one.db-wal", "one.db-wal: is a file of the database itself", 1),
        ("ladder conv1d --target cpu --svg one.db", "one.db: is a file of the database itself", 1),
        ("import nothing.jsonl", "nothing.jsonl: No such file or directory", 1),
        ("import .", ".: has no convtune.jsonl", 1),
        ("import -", "record 1: record: is no JSON", 1),
    ],
)
def test_export_and_import_refuse_bad_arguments_in_one_line(
    run: Run, arguments: str, says: str, code: int, tmp_path: Path
) -> None:
    said = run(*arguments.split(), said="{", code=code)
    assert said.startswith("tuner: ")
    assert says in said
    assert said.count("\n") == 1
    assert beside_the_database(tmp_path) == []


@pytest.mark.parametrize("name", ["convtune", "metaschedule"])
def test_a_dash_is_standard_output(run: Run, tmp_path: Path, name: str) -> None:
    order = ("export", "--of", "bests", "--format", name)
    assert run(*order, "--out", "-") == run(*order)
    assert beside_the_database(tmp_path) == []


def test_export_writes_through_a_link_and_keeps_it(run: Run, tmp_path: Path) -> None:
    """Pipes and links are written to and stay; only plain files are replaced. The test names
    /dev/stdout by a link of its own: if the code were wrong, root would lose the real one."""
    link, plain = tmp_path / "link", run("export", "--of", "bests")
    link.symlink_to("/dev/stdout")
    written = subprocess.run(
        [sys.executable, "-m", "tuner", "export", "--of", "bests", "--out", str(link)],
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert (written.stdout.decode(), link.is_symlink()) == (plain, True)
    link.unlink()
    link.symlink_to("file")
    (tmp_path / "link.part").write_text("somebody's own")
    run("export", "--of", "bests", "--out", str(link))
    assert link.is_symlink()
    assert (tmp_path / "file").read_text() == plain
    assert (tmp_path / "link.part").read_text() == "somebody's own"
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("export --of bests >&-", 1, "tuner: Bad file descriptor"),
        ("export --of bests 2>&- >&- <&-", 1, ""),
        ("keys list >&-", 0, "tuner: there are no keys"),
        ("import - <&-", 1, "tuner: record 1: log: there is no record in it; nothing was imported"),
    ],
)
def test_commands_handle_closed_standard_streams(line: str, code: int, said: str) -> None:
    command = ["bash", "-c", f'"$0" -m tuner {line}', sys.executable]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr.strip()) == (code, said)
