"""Every block of docs/how-to runs, with few trials. Most pages share one service."""

import os
import shutil
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from how_to import PAGES, ROOT, Block, Room, blocks

from tests.own_postgres import private_server
from tuner.client.client import Client

BLOCKS = blocks()
FIRST = "tune-on-a-gpu-host"
SEVERAL = "run-several-hosts"
TEMPLATE = "add-a-template"
OPERATOR = "add-an-operator"
KEYS = "use-keys"


def service_of(page: str) -> Block:
    (found,) = (block for block in BLOCKS if block.page == page and "service" in block.words)
    return found


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """Yield a room with the first page's service and worker, and with the pages' example tuned.

    It is tuned without baselines: after three trials PyTorch may be faster, and a kernel slower
    than PyTorch is neither used nor shipped.
    """
    made = Room(tmp_path_factory.mktemp("how-to"))
    try:
        made.start(service_of(FIRST))
        with Client(f"http://127.0.0.1:{made.port}") as client:
            order = {"M": 16384, "N": 32, "trials": 3, "baselines": "none"}
            client.wait(client.submit("conv1d", **order), 240)
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def postgres() -> Iterator[dict[str, str]]:
    """Yield the environment variables with which PostgreSQL's commands and convtune find a server
    with a database ``convtune``."""
    with private_server() as server:
        server.psql("CREATE DATABASE convtune;")
        url = urlsplit(server.get_uri())
        host = parse_qs(url.query)["host"][0]
        commands = server.bin_path
        yield {
            "PATH": f"{commands}:{os.environ['PATH']}",
            "PGHOST": host,
            "PGUSER": url.username or "postgres",
            "TUNER_DATABASE_URL": f"postgresql://{url.username}@/convtune?host={host}",
        }


@pytest.fixture(scope="module")
def several(postgres: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """Yield a room with the service and worker of the page ``SEVERAL`` on PostgreSQL."""
    made = Room(tmp_path_factory.mktemp("several"), postgres)
    made.replaced["postgresql://convtune@10.0.0.1/convtune"] = postgres["TUNER_DATABASE_URL"]
    try:
        made.start(service_of(SEVERAL))
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """Yield a room with the service of the page ``KEYS``. It refuses orders without a key, such as
    those of other pages."""
    made = Room(tmp_path_factory.mktemp("guarded"))
    try:
        made.start(service_of(KEYS))
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Room:
    """Return a room with a copy of the templates, to which a page adds one."""
    made = Room(tmp_path_factory.mktemp("checkout"))
    shutil.copytree(ROOT / "templates", made.folder / "templates")
    return made


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """Yield a room with a copy of the packages, to which a page adds an operator.

    Its service starts when the page starts it.
    """
    made = Room(tmp_path_factory.mktemp("grown"))
    for part in ("api", "db", "docs", "templates", "tests", "tuner"):
        shutil.copytree(ROOT / part, made.folder / part)
    shutil.copy(ROOT / "pyproject.toml", made.folder)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(each, marks=[pytest.mark.torch] if "torch" in each.words else [])
        for each in BLOCKS
    ],
    ids=str,
)
def test_how_to_block_runs(
    block: Block, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = block.missing()
    if missing is not None:
        pytest.skip(missing)
    name = {SEVERAL: "several", TEMPLATE: "checkout", OPERATOR: "grown", KEYS: "guarded"}.get(
        block.page, "room"
    )
    used: Room = request.getfixturevalue("several" if "postgres" in block.words else name)
    monkeypatch.chdir(used.folder)
    monkeypatch.syspath_prepend(used.installed)
    monkeypatch.setenv("XDG_CACHE_HOME", used.environment["XDG_CACHE_HOME"])
    if "service" not in block.words:
        used.run(block)
    elif block.page == OPERATOR:  # the services of the other pages run already
        used.start(block)


def test_every_how_to_page_has_a_block() -> None:
    assert {block.page for block in BLOCKS} == {path.stem for path in PAGES}
