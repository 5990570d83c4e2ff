"""Bad input on the shell: one line, a non-zero exit, and nothing written."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.tuner.shell import ran
from tuner.device import cuda_facts

SMALL = "conv1d --M 30 --N 5"
DEPTHWISE = "depthwise_conv2d --B 1 --C 2 --H 5 --W 5"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test run in an empty folder."""
    monkeypatch.chdir(tmp_path)


def refusal(arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, int]:
    """Run ``tuner ARGUMENTS``, which must write one line to standard error and nothing to standard
    output; return that line and the exit code."""
    code, out, err = ran(capsys, *arguments.split())
    assert out == ""
    assert err.count("\n") == 1, err
    assert isinstance(code, int)
    return err.strip(), code


@pytest.mark.parametrize("command", ["tune", "best"])
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("nosuch --M 3", "No such command 'nosuch'; see tuner {} --help"),
        ("conv1d --M 3", "Missing option '--N'"),
        ("conv1d --M 0 --N 1", "--M: must be at least 1, but is 0"),
        ("conv1d --M 3 --N 5 --mode valid", "--N: the kernel spans 5 samples, but"),
        ("conv1d --M 16777217 --N 5", "--M: must be at most 16777216, but is 16777217"),
        ("conv1d --M 16777216 --N 65536 --B 9", "must be at most 2^44"),
        ("conv1d --M 1.5 --N 1", "'--M': must be an integer, but is \"1.5\""),
        ("conv1d --M 1e3 --N 1", "'--M': must be an integer, but is \"1e3\""),
        (f"{SMALL} --mode ful", "--mode: must be 'full', 'same', 'valid' or 'causal'"),
        (f"{SMALL} --dtype float64", "--dtype: must be 'float32', 'float16' or 'bfloat16'"),
        (
            f"{SMALL} --dtype float16 --max-error 1e-4",
            "--max-error: must be at least 0.0005 for float16, because outputs",
        ),
        (f"{SMALL} --max-error 0", "--max-error: must be at least 1e-06, but is 0.0"),
        (f"{SMALL} --K 3", "No such option: --K; see"),
        (f"{SMALL} --chanels 3", "No such option: --chanels; did you mean --C or --F?; see"),
        (f"{SMALL} --strid 3", "No such option: --strid; did you mean --stride?; see"),
        (DEPTHWISE, "--K: give K, the kernel's height and width, or both KH and KW"),
        (f"{DEPTHWISE} --K 65", "--K: must be at most 63, but is 65"),
        (f"{DEPTHWISE} --K 3 --stride 5", "--stride: must be 1, 2, 3 or 4, but is 5"),
        (f"{DEPTHWISE} --K 3 --padding 1,1", "--padding: must be four whole numbers"),
        (f"{SMALL} --target tpu", "'--target': 'tpu' is not one of 'auto', 'cpu', 'cuda'"),
        (f"{SMALL} more", "extra argument"),
    ],
)
def test_tune_and_best_refuse_a_bad_shape(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str, arguments: str, says: str
) -> None:
    said, code = refusal(f"{command} {arguments}", capsys)
    assert said.startswith("tuner: ")
    assert says.format(command) in said
    assert code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--trials 0", "'--trials': must be at least 1, but is \"0\""),
        ("--trials 100001", "'--trials': must be at most 100000"),
        ("--trials many", "'--trials': must be an integer"),
        (
            "--search annealing",
            "unknown search strategy 'annealing'; known are: evolutionary, grid, metaschedule, "
            "predicted, random, xgb",
        ),
        ("--seed -1", "'--seed': must be at least 0"),
        ("--seed 2147483648", "'--seed': must be at most 2147483647"),
        ("--budget-seconds 0", "'--budget-seconds': must be "),
        ("--patience 0", "'--patience': must be at least 1"),
        (
            "--target cpu --template direct --template toeplitz",
            "templates: names 'toeplitz', but conv1d on cpu has no such template; choose from "
            "direct, fft",
        ),
        ("--budget-seconds nan", "'--budget-seconds': "),
        ("--budget-seconds inf", "'--budget-seconds': must be at most 604800"),
    ],
)
def test_tune_refuses_bad_terms(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: str, says: str
) -> None:
    said, code = refusal(f"tune {SMALL} {arguments}", capsys)
    assert says in said
    assert code > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shape", [SMALL, "conv1d --dtype float16 --M 30 --N 5"])
def test_best_of_an_untuned_shape_prints_the_tune_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    monkeypatch.setenv("TUNER_DATABASE_URL", "sqlite:///new.db")
    said, code = refusal(f"best {shape}", capsys)
    assert said.endswith(f"nothing is tuned for {shape}; run: tuner tune {shape}")
    said, code = refusal(f"best {shape} --target cuda --template direct", capsys)
    assert said.endswith(
        f"nothing is tuned for {shape} on cuda; "
        f"run: tuner tune {shape} --template direct --target cuda"
    )
    assert code == 1


def test_ladder_refuses_float16(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said, code = refusal("ladder conv1d --dtype float16", capsys)
    assert "--dtype: a ladder's rungs are float32, but it is float16; leave it out" in said
    assert code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(cuda_facts.missing() is None, reason="there is a GPU here")
@pytest.mark.parametrize("command", [f"tune {SMALL}", "worker --once"])
def test_tune_and_worker_refuse_a_target_that_is_not_here(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    said, code = refusal(f"{command} --target cuda", capsys)
    assert said.startswith("tuner: target cuda: ")
    assert said.endswith("use --target cpu, or run on a GPU host")
    assert code == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [f"tune {SMALL} --target cpu", "worker --target cpu"])
def test_tune_and_worker_refuse_a_machine_that_cannot_link(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    said, code = refusal(command, capsys)
    assert said.startswith("tuner: CXX is 'no-such-compiler', which is no program")
    assert code == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [f"tune {SMALL} --target cpu", "worker --target cpu"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TUNER_LOG_FORMAT", "xml"),
        ("TUNER_BUILD_WORKERS", "0"),
        ("TUNER_BUILD_SECONDS", "-1"),
        ("TUNER_RUN_SECONDS", "soon"),
        ("TUNER_POLL_SECONDS", "0"),
        ("TUNER_POLL_SECONDS", "inf"),
        ("TUNER_RUN_SECONDS", "1e12"),
        ("TUNER_METASCHEDULE", "maybe"),
    ],
)
def test_tune_and_worker_refuse_a_bad_setting(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *,
    command: str,
    name: str,
    value: str,
) -> None:
    monkeypatch.setenv(name, value)
    said, code = refusal(command, capsys)
    assert said.startswith(f"tuner: setting {name}: must be ")
    assert code == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [f"tune {SMALL} --target cpu", f"best {SMALL}", "worker --target cpu --once"],
    ids=["tune", "best", "worker"],
)
@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlite:////no/such/folder/x.db", "there is no folder /no/such/folder; create it first"),
        ("sqlite:///notes.txt", "is the file a database of convtune"),
        ("sqlite://", "name a file"),
        ("sqlite://localhost/x.db", "with three slashes for a relative path"),
        ("nonsense", "TUNER_DATABASE_URL"),
        ("mysql://root:secret@host/x", "mysql is not supported"),
        ("postgresql://u:secret@127.0.0.1:1/x", "is the server running"),
    ],
)
def test_commands_refuse_an_unusable_database(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *,
    command: str,
    url: str,
    says: str,
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("no database " * 100)
    monkeypatch.setenv("TUNER_DATABASE_URL", url)
    said, code = refusal(command, capsys)
    assert says in said
    assert "secret" not in said
    assert code == 1
    assert list(tmp_path.iterdir()) == [notes]
    assert notes.read_text() == "no database " * 100


@pytest.mark.parametrize("command", ["jobs list", "db backup copy.db"])
def test_commands_refuse_a_removed_working_folder(
    command: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    said, code = refusal(command, capsys)
    assert "the working folder was removed; change to another one" in said
    assert code == 1


def test_serve_refuses_a_bad_port(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_PORT", "99999")
    said, code = refusal("serve", capsys)
    assert "TUNER_PORT" in said
    assert code == 2


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("--rpc-tracker 10.0.0.1:9190", "give both --rpc-tracker and --rpc-key, or neither"),
        ("--rpc-key h200", "give both --rpc-tracker and --rpc-key, or neither"),
        ("--rpc-tracker nowhere --rpc-key h200", "--rpc-tracker nowhere: give host:port"),
        ("--rpc-tracker h:0 --rpc-key h200", "--rpc-tracker h:0: give host:port"),
        ("--rpc-tracker h:65536 --rpc-key h200", "--rpc-tracker h:65536: give host:port"),
        ("--rpc-tracker h:1 --rpc-key=", "--rpc-key: give a name for the kind of device"),
        ("--rpc-tracker h:1 --rpc-key k --target cpu", "leave --target out"),
        ("--rpc-tracker h:1 --rpc-key k --gpus all", "leave out --gpus or --rpc-tracker"),
    ],
)
def test_farm_worker_refuses_bad_options(
    options: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said, code = refusal(f"worker {options}", capsys)
    assert named in said
    assert code == 2


def test_farm_worker_refuses_metaschedule(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_METASCHEDULE", "1")
    said, _ = refusal("worker --rpc-tracker h:1 --rpc-key k", capsys)
    assert "TUNER_METASCHEDULE" in said


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("--key h200", "--tracker"),
        ("--tracker h:1", "--key"),
        ("--tracker h --key k", "--tracker h: give host:port"),
        ("--tracker h:1 --key=", "--key: give a name for the kind of device"),
        ("--tracker h:1 --key k --gpus all --target cpu", "leave --target cpu out"),
        ("--tracker h:1 --key k --port 0", "--port"),
        ("--tracker h:1 --key k --host 192.0.2.1", "name an address of this machine"),
        ("--tracker h:1 --key k --host no.such.invalid", "name an address of this machine"),
    ],
)
def test_rpc_server_refuses_bad_options(
    options: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said, code = refusal(f"rpc-server {options}", capsys)
    assert named in said
    assert code == 2


def test_worker_refuses_to_run_without_docstrings() -> None:
    ended = subprocess.run(
        [sys.executable, "-OO", "-m", "tuner.worker", "--once", "--target", "cpu"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert ended.stderr.endswith("leave out -OO and PYTHONOPTIMIZE=2\n")


def test_rpc_server_names_the_tracker_to_start(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    said, code = refusal(f"rpc-server --tracker 127.0.0.1:{port} --key k --target cpu", capsys)
    assert said == (
        f"tuner: no RPC tracker answers at 127.0.0.1:{port} (Connection refused); start it first: "
        f"python -m tvm.exec.rpc_tracker --host 127.0.0.1 --port {port} --port-end {port + 1}"
    )
    assert code == 1
