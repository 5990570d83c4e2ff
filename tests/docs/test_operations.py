"""The pages for people who run the service: the described metrics are those that are exported, and
the systemd units start commands and set variables that exist."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import httpx2
import pytest
from how_to import ROOT, blocks

from api.metrics import Metrics
from api.settings import Settings as ServiceSettings
from db.sql.engine import migrate, open_engine
from tests.ports import free_port
from tuner.settings import Settings as WorkerSettings
from tuner.worker.metrics import WorkerMetrics

MONITOR = (ROOT / "docs/how-to/monitor.md").read_text()
BINARY = "/opt/convtune/bin/tuner"
UNITS = [
    (word.removeprefix("file="), block.text)
    for block in blocks()
    if block.language == "ini"
    for word in block.words
]


def exposed(text: str) -> set[str]:
    """Return the names of the metrics in an exposition. Names that end in ``_created`` (the times
    at which counters began) are left out."""
    names = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    return {name for name in names if not name.endswith("_created")}


def test_every_metric_is_described(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'empty.db'}")
    migrate(engine)
    service = exposed(Metrics().render(engine, 0).decode())
    engine.dispose()
    port = free_port()
    with WorkerMetrics().served("127.0.0.1", port):
        worker = exposed(httpx2.get(f"http://127.0.0.1:{port}/metrics").text)
    described = set(re.findall(r"^\| `(convtune_\w+)`", MONITOR, re.MULTILINE))
    assert service and worker
    assert described == service | worker


def test_alerts_ask_for_metrics_that_are_described() -> None:
    described = set(re.findall(r"^\| `(convtune_\w+)`", MONITOR, re.MULTILINE))
    asked = set(re.findall(r"convtune_\w+?(?=_bucket|_count|\{|\)| )", MONITOR)) - {"convtune_"}
    assert asked <= described


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit[0])
def test_systemd_unit_starts_tuner_with_known_settings(
    unit: tuple[str, str], tmp_path: Path
) -> None:
    name, text = unit
    parsed = configparser.RawConfigParser(strict=False)
    parsed.read_string(text)
    command = parsed["Service"]["ExecStart"].split()
    assert command[0] == BINARY
    known = {*ServiceSettings.model_fields, *WorkerSettings.model_fields}
    variables = re.findall(r"^Environment=TUNER_(\w+)=", text, re.MULTILINE)
    assert {variable.lower() for variable in variables} <= known
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("there is no systemd-analyze here; the rest was looked at")
    path = tmp_path / name
    path.write_text(text.replace(BINARY, "/bin/true").replace("User=convtune\n", ""))
    done = subprocess.run(
        [verify, "verify", "--man=no", path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert name not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
