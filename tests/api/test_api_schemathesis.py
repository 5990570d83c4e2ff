"""schemathesis against the service as a process, for every operation of the OpenAPI document.

It sends data that fits the schema and data that does not, and follows links. schemathesis.toml says
how to run it by hand and what is not tested of which operation.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from service_rows import GPU, HOST, tuned
from test_api_ladders import climbed
from test_api_process import SERVE, Service

from api.schemas.orders.model import MODEL_EXAMPLE, ModelOrderBody
from db import models
from db.access import keys
from db.sql.engine import migrate, open_engine
from templates import operators

HERE = Path(__file__).parent
SEED = "20251120"
SETTLED = {
    "PYTHONHASHSEED": "0",
    "HYPOTHESIS_STORAGE_DIRECTORY": str(HERE.parents[1] / ".hypothesis"),
    "COLUMNS": "120",
    "NO_COLOR": "1",
}
OPERATIONS = {"get": 19, "post": 6}

Explore = Callable[..., str]


@contextmanager
def service(url: str, guards_reading: bool) -> Iterator[Explore]:
    """Start a service with rows for all examples; yield a function that runs schemathesis on it.

    The function takes the scope of the key to use and options, asserts that nothing was found, and
    returns the output. In the end no answer may have had a status of 500 or more.
    """
    engine = open_engine(url)
    migrate(engine)
    for operator in operators():
        tuned(engine, operator.name, operator.example)
        climbed(engine, GPU, operator.name)
    tuned(engine, "conv1d", {"M": 100, "N": 7}, HOST)
    models.submit(engine, ModelOrderBody.model_validate(MODEL_EXAMPLE).order())
    secrets = {scope: keys.create(engine, f"a-{scope}", scope)[1] for scope in keys.SCOPES}
    engine.dispose()
    started = Service(
        SERVE, TUNER_DATABASE_URL=url, TUNER_REQUIRE_KEY_TO_READ=str(guards_reading).lower()
    )

    def explore(scope: keys.KeyScope, *options: str) -> str:
        key = f"Authorization: Bearer {secrets[scope]}"
        asked = ["run", f"{started.url}/openapi.json", "--header", key, "--seed", SEED, *options]
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "schemathesis.cli",
                "--config-file",
                "schemathesis.toml",
                *asked,
            ],
            cwd=HERE,
            env=os.environ | SETTLED,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    try:
        yield explore
    finally:
        started.stop()
    statuses = [
        int(found) for line in started.lines for found in re.findall('"status": ([0-9]+)', line)
    ]
    assert set(statuses) >= {200, 404}
    assert max(statuses) < 500


def asked_of(said: str) -> int:
    """Return the number of operations that were tested."""
    return int(re.findall("Tested: ([0-9]+)", said)[0])


def test_schemathesis_finds_nothing_in_any_operation(tmp_path: Path) -> None:
    with service(f"sqlite:///{tmp_path / 'service.db'}", guards_reading=True) as explore:
        said = explore("submit", "--max-examples", "6")
    assert asked_of(said) == sum(OPERATIONS.values())
    for phase in ("Examples", "Coverage", "Fuzzing", "Stateful"):
        assert f"✅ {phase}" in said


def test_schemathesis_finds_nothing_in_get_operations_with_a_read_key(tmp_path: Path) -> None:
    with service(f"sqlite:///{tmp_path / 'service.db'}", guards_reading=True) as explore:
        said = explore("read", "--include-method", "GET", "--phases", "examples,fuzzing", "-n", "2")
    assert asked_of(said) == OPERATIONS["get"]


def test_schemathesis_finds_nothing_on_postgresql(postgres_url: str) -> None:
    with service(postgres_url, guards_reading=False) as explore:
        said = explore("admin", "--phases", "examples,fuzzing,stateful", "-n", "4")
    assert asked_of(said) == sum(OPERATIONS.values())
