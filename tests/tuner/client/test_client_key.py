"""The client and a service that requires API keys."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from service_process import Service

from db.access import keys
from tuner.client.client import Client
from tuner.errors import ServiceError, WrongArgument

SHAPE = {"M": 100, "N": 3}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Yield a service that requires an API key even to read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUNER_REQUIRE_KEY_TO_READ", "1")
        running = Service(tmp_path_factory.mktemp("guarded"))
    yield running
    running.close()


def test_client_uses_the_given_key_or_the_one_in_the_environment(
    guarded: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TUNER_API_KEY", raising=False)
    reader = keys.create(guarded.engine, "reader", "read")[1]
    writer = keys.create(guarded.engine, "writer", "submit")[1]
    with Client(guarded.url, cache=tmp_path) as nobody, pytest.raises(ServiceError) as raised:
        nobody.submit("conv1d", SHAPE)
    assert (raised.value.status, raised.value.type) == (401, "urn:convtune:problem:key-required")
    with Client(guarded.url, cache=tmp_path, key=writer) as client:
        job = client.submit("conv1d", SHAPE)
    monkeypatch.setenv("TUNER_API_KEY", reader)
    with Client(guarded.url, cache=tmp_path) as client:
        assert client.job(job).id == job.id
        with pytest.raises(ServiceError, match="reader has scope read, but this needs submit"):
            client.cancel(job)
        assert reader not in repr(vars(client))
    with Client(guarded.url, cache=tmp_path, key=writer) as client:
        assert client.cancel(job).state == "cancelled"


@pytest.mark.parametrize("wrong", ["secret\n", "two secrets", "sécret"])
def test_malformed_key_is_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    with pytest.raises(WrongArgument, match="TUNER_API_KEY") as refused:
        Client(key=wrong)
    assert wrong[-5:] not in str(refused.value)
    monkeypatch.setenv("TUNER_API_KEY", wrong)
    with pytest.raises(WrongArgument, match="a line's end"):
        Client()


def test_running_service_notices_new_and_revoked_keys(guarded: Service, tmp_path: Path) -> None:
    """The service looks for keys once a second (tests/api/test_api_access.py), but a busy host is
    slower. So the test waits for the change instead of sleeping for a second."""
    secret = keys.create(guarded.engine, "passing", "submit")[1]
    with Client(guarded.url, cache=tmp_path, key=secret) as client:

        def refusal() -> str:
            try:
                client.submit("conv1d", SHAPE, seed=1)
            except ServiceError as error:
                return str(error)
            return "none"

        wait_for(lambda: refusal() == "none")
        keys.revoke(guarded.engine, "passing")
        wait_for(lambda: "is not known, or was revoked" in refusal())


def wait_for(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20.0
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.05)
