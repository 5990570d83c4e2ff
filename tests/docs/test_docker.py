"""The Docker images and compose files, as far as they can be checked without a Docker engine."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from api.settings import Settings as ApiSettings
from db.fleet import workers
from db.sql.engine import migrate, open_engine
from tuner.settings import Settings

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
DOCKERFILES = sorted(DOCKER.glob("*.Dockerfile"))
COMPOSE = sorted(DOCKER.glob("compose*.yaml"))
SERVICE = [
    line
    for line in (DOCKER / "api-requirements.txt").read_text().splitlines()
    if not line.startswith("#")
]
SETTINGS = {f"TUNER_{n.upper()}" for kind in (Settings, ApiSettings) for n in kind.model_fields}
START = """
import asyncio, json, sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

absent = set(json.loads(sys.argv[1]))
sys.meta_path.insert(0, Absent())
import api.__main__, psycopg
from api.main import app

async def start():
    async with app.router.lifespan_context(app):
        return len(app.openapi()["paths"])

print("serves", asyncio.run(start()))
"""


def with_what_they_require(names: list[str]) -> set[str]:
    """Return the names of the distributions that pip would install for these requirements."""
    todo = [Requirement(name) for name in names]
    found: set[tuple[str, str]] = set()
    while todo:
        requirement = todo.pop()
        for extra in {"", *requirement.extras}:
            key = canonicalize_name(requirement.name), extra
            if key in found:
                continue
            found.add(key)
            todo += [
                needed
                for needed in map(Requirement, requires(key[0]) or [])
                if needed.marker is None or needed.marker.evaluate({"extra": extra})
            ]
    return {name for name, _ in found}


def instructions(dockerfile: Path, name: str) -> list[str]:
    """Return the arguments of each instruction ``name``, with continued lines joined."""
    text = dockerfile.read_text().replace("\\\n", " ")
    return re.findall(rf"^{name} +(.*)$", text, re.MULTILINE)


def composed(path: Path) -> Any:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    return yaml.safe_load(path.read_text())


def test_service_starts_with_only_the_packages_of_its_image(tmp_path: Path) -> None:
    """The service starts although every package that its image lacks is hidden from it."""
    present = with_what_they_require(SERVICE)
    absent = {
        module
        for module, owners in packages_distributions().items()
        if not {canonicalize_name(owner) for owner in owners} & present
    } - {"api", "db", "templates"}
    assert absent >= {"tvm", "tvm_ffi", "xgboost", "typer", "httpx2"}
    done = subprocess.run(
        [sys.executable, "-c", START, json.dumps([*absent, "tuner"])],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TUNER_DATABASE_URL": f"sqlite:///{tmp_path / 'service.db'}",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.startswith("serves"), (
        f"{done.stderr}\nadd what is missing to docker/api-requirements.txt"
    )


def test_service_image_requires_only_packages_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known = {*project["dependencies"], *project["optional-dependencies"]["postgres"]}
    assert set(SERVICE) - known == set()


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_image_copies_existing_files_and_has_a_user_and_a_health_check(dockerfile: Path) -> None:
    text = dockerfile.read_text()
    sources = [
        source
        for arguments in instructions(dockerfile, "COPY")
        if not arguments.startswith("--from")
        for source in arguments.split()[:-1]
    ]
    allowed = re.findall("^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    for source in sources:
        assert (ROOT / source).exists()
        assert any(source == each or source.startswith(f"{each}/") for each in allowed), source
    assert instructions(dockerfile, "USER")[-1].isdigit()
    assert len(instructions(dockerfile, "HEALTHCHECK")) == 1
    assert set(re.findall(r"TUNER_\w+", text)) <= SETTINGS
    assert not re.search("https?://(?!127)|find-links|index", text)


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_hadolint_has_no_complaint(dockerfile: Path) -> None:
    hadolint = shutil.which("hadolint", path=Path(sys.executable).parent)
    if hadolint is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run([hadolint, str(dockerfile)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.name)
def test_compose_file_has_known_settings_and_only_private_ports(path: Path) -> None:
    found = composed(path)
    assert set(found) == {"name", "services", "volumes"}
    mounted = set()
    for service in found["services"].values():
        kind = service["image"].removeprefix("convtune-")
        assert ("build" in service) == (kind != service["image"])
        if "build" in service:
            assert service["build"] == {
                "context": "..",
                "dockerfile": f"docker/{kind}.Dockerfile",
            }
            assert (ROOT / service["build"]["dockerfile"]).is_file()
        variables = {v for v in service.get("environment", {}) if v.startswith("TUNER_")}
        assert variables <= SETTINGS
        for port in service.get("ports", []):
            assert re.match(r"127\.0\.0\.1:|\$\{CONVTUNE_BIND:\?", port), "open to everybody"
        mounted |= {volume.partition(":")[0] for volume in service.get("volumes", [])}
        assert set(service.get("depends_on", {})) < set(found["services"])
    assert mounted == set(found["volumes"])


def test_the_shared_database_is_where_the_images_expect_it() -> None:
    for path in DOCKERFILES:
        assert "TUNER_DATABASE_URL=sqlite:////data/convtune.db" in path.read_text()
    services = composed(DOCKER / "compose.yaml")["services"]
    assert {name: each["volumes"] for name, each in services.items()} == {
        "api": ["data:/data"],
        "worker": ["data:/data", "keys:/keys"],
    }
    assert services["worker"]["gpus"] == "all"


def test_the_workers_key_outlives_its_container() -> None:
    [image] = [path.read_text() for path in DOCKERFILES if path.name.startswith("worker")]
    assert "TUNER_SIGNING_KEY=/keys/signing_key.pem" in image
    assert json.loads(instructions(DOCKER / "worker.Dockerfile", "VOLUME")[0]) == ["/data", "/keys"]
    assert "TUNER_SIGNING_KEY" not in (DOCKER / "api.Dockerfile").read_text()


def test_worker_container_is_healthy_while_its_worker_sends_heartbeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'convtune.db'}"
    monkeypatch.setenv("TUNER_DATABASE_URL", url)
    engine = open_engine(url)
    migrate(engine)

    def health() -> Any:
        with pytest.raises(SystemExit) as exit_:
            runpy.run_path(str(DOCKER / "worker_health.py"))
        return exit_.value.code

    who = {"pid": 1, "device_id": None, "version": "0.1.0", "job_id": None}
    workers.beat(engine, "elsewhere", host="another-host", **who)
    assert health().startswith("no beat of ")
    monkeypatch.setattr("socket.gethostname", lambda: "another-host")
    assert health() == 0
    engine.dispose()
