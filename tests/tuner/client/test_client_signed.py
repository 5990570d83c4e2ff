"""The client and a dishonest service: only libraries that a pinned key has signed are loaded."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from dishonest import Hostile, taken_over
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service_process import Service

from db.results import signed, signers
from tests.tuner.answering import running
from tuner.client.answers import Best
from tuner.client.client import Client
from tuner.client.responses import parse
from tuner.errors import BrokenArtifact, NotAKey, ServiceError, UntrustedSigner
from tuner.library.pins import Pins
from tuner.library.signing_key import public_key_of

SHAPE = {"M": 16384, "N": 32}
PATH = "/best/conv1d?M=16384&N=32"
OTHER = "/best/depthwise_conv2d?B=2&C=3&H=9&W=20&K=3"
MALLORY = Ed25519PrivateKey.generate()
flips = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: Service) -> None:
    """Give this machine a new, empty configuration folder: the service's libraries were signed by
    another machine's key."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def hostile(service: Service) -> Iterator[Hostile]:
    """Yield a service that a test makes hostile; until then it serves an honest service's best."""
    with running(Hostile(*taken_over(service.url, PATH))) as server:
        yield server


@pytest.fixture
def client(hostile: Hostile, tmp_path: Path) -> Iterator[Client]:
    with Client(hostile.url, cache=tmp_path / "cache") as opened:
        yield opened


def flipped(content: bytes, bit: int) -> bytes:
    """Return the bytes with the given bit flipped."""
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def loads(client: Client) -> None:
    """Ask for the best and load its library."""
    client.load(client.best("conv1d", SHAPE))


def test_first_keys_of_a_service_are_pinned_and_not_fetched_again(
    client: Client, hostile: Hostile
) -> None:
    loads(client)
    assert Pins().of(hostile.url) == frozenset(hostile.keys)
    loads(client)
    assert hostile.paths.count("/signers") == 1
    assert Pins().path.stat().st_mode & 0o77 == 0
    assert Pins().path.parent.stat().st_mode & 0o77 == 0


def test_library_signed_by_a_withdrawn_key_is_not_trusted(service: Service, tmp_path: Path) -> None:
    [signer] = signers.list_signers(service.engine)
    with Client(service.url, cache=tmp_path / "cache") as client:
        best = client.best("conv1d", SHAPE)
        signers.withdraw(service.engine, signer.public_key)
        try:
            with pytest.raises(UntrustedSigner, match=r"withdrawn; tune its workload again"):
                client.load(best)
        finally:
            signers.register(service.engine, signer)
        client.load(best)


@flips
@given(data=st.data())
def test_file_with_a_flipped_bit_is_refused_even_if_its_hash_fits(
    client: Client, hostile: Hostile, data: st.DataObject
) -> None:
    """Whichever file has a flipped bit, the best is refused and no library is in the cache."""
    Pins().replace(hostile.url, hostile.keys)
    sound = hostile.files
    kind = data.draw(st.sampled_from(sorted(sound)))
    bit = data.draw(st.integers(0, 8 * len(sound[kind]) - 1))
    hostile.files = sound | {kind: flipped(sound[kind], bit)}
    try:
        with pytest.raises(BrokenArtifact, match=f"{hostile.url}|signature"):
            loads(client)
    finally:
        hostile.files = sound
    assert list(client.cache.folder.glob("*.so")) == []


@flips
@given(data=st.data())
def test_cached_file_with_a_flipped_bit_is_downloaded_again(
    client: Client, data: st.DataObject
) -> None:
    best = client.best("conv1d", SHAPE)
    suffix = data.draw(st.sampled_from([".so", ".json", ".sig"]))
    client.load(best)
    [path] = client.cache.folder.glob(f"*{suffix}")
    content = path.read_bytes()
    # The file is replaced, not changed in place, as the loaded library is mapped from it.
    rotten = path.with_name("rotten")
    rotten.write_bytes(flipped(content, data.draw(st.integers(0, 8 * len(content) - 1))))
    rotten.replace(path)
    client.load(best)
    assert path.read_bytes() == content


def test_altered_library_and_manifest_are_refused_without_a_new_signature(
    client: Client, hostile: Hostile
) -> None:
    loads(client)
    library = flipped(hostile.files["library"], 8 * 9000)
    manifest = json.loads(hostile.files["manifest"])
    manifest["library"]["sha256"] = hashlib.sha256(library).hexdigest()
    hostile.files |= {"library": library, "manifest": json.dumps(manifest).encode()}
    with pytest.raises(BrokenArtifact, match="is over another manifest"):
        loads(client)


def test_library_signed_by_an_unpinned_key_is_refused_with_a_remedy(
    client: Client, hostile: Hostile
) -> None:
    loads(client)
    signature = signed.sign(MALLORY, hostile.files["manifest"])
    hostile.files["signature"] = signature.to_json()
    hostile.keys.append(public_key_of(MALLORY))  # the service lists it; the client has no pin of it
    with pytest.raises(UntrustedSigner) as raised:
        loads(client)
    said = str(raised.value)
    assert f"signed by {signature.fingerprint}" in said
    assert f"pinned for {hostile.url}" in said
    assert said.endswith(f"tuner trust {hostile.url}")


def test_signature_that_names_another_key_is_refused(client: Client, hostile: Hostile) -> None:
    fields = json.loads(hostile.files["signature"])
    forged = signed.Signature(fields["manifest"], public_key_of(MALLORY), fields["signature"])
    hostile.files["signature"] = forged.to_json()
    hostile.keys = [public_key_of(MALLORY)]
    with pytest.raises(BrokenArtifact, match="was not made by the key it names"):
        loads(client)


def test_another_workloads_library_is_refused(
    client: Client, hostile: Hostile, service: Service
) -> None:
    loads(client)
    best, files, _ = taken_over(service.url, OTHER)
    honest, hostile.files = hostile.files, files
    with pytest.raises(BrokenArtifact, match="a manifest of another workload"):
        loads(client)
    hostile.best = best  # its signature is right, but it is of another workload
    with pytest.raises(ServiceError, match=r"asked for .* it answers with depthwise_conv2d"):
        loads(client)
    hostile.files = honest


def test_library_for_another_kind_of_device_is_refused(client: Client, hostile: Hostile) -> None:
    hostile.best |= {"device": {**hostile.best["device"], "kind": "cuda"}}
    with pytest.raises(BrokenArtifact, match="another kind of device: cpu, not cuda"):
        loads(client)
    with pytest.raises(ServiceError, match="asked for cpu, it answers for cuda"):
        client.best("conv1d", SHAPE, target="cpu")


def test_unsigned_library_is_refused_and_not_downloaded(client: Client, hostile: Hostile) -> None:
    del hostile.files["signature"]
    with pytest.raises(UntrustedSigner, match=r"not signed.*trials=1, on_existing='retune'"):
        loads(client)
    assert [path for path in hostile.paths if path.startswith("/artifacts/")] == []


@pytest.mark.parametrize("kind", ["manifest", "signature"])
def test_too_large_manifest_or_signature_is_refused(
    client: Client, hostile: Hostile, kind: str
) -> None:
    hostile.files[kind] = bytes(2_000_000)
    with pytest.raises(BrokenArtifact, match="would have 2000000 bytes"):
        loads(client)


def test_only_the_named_signers_are_trusted(
    hostile: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, wrong = hostile.keys, [public_key_of(MALLORY)]
    with Client(hostile.url, cache=tmp_path / "cache", signers=right) as client:
        loads(client)
    with (
        Client(hostile.url, cache=tmp_path / "cache", signers=wrong) as client,
        pytest.raises(UntrustedSigner, match="signers= or TUNER_SIGNERS names"),
    ):
        loads(client)
    monkeypatch.setenv("TUNER_SIGNERS", ", ".join([*wrong, *right]))
    with Client(hostile.url, cache=tmp_path / "cache") as client:
        loads(client)
    monkeypatch.setenv("TUNER_SIGNERS", wrong[0])
    with Client(hostile.url, cache=tmp_path / "cache") as client, pytest.raises(UntrustedSigner):
        loads(client)
    assert "/signers" not in hostile.paths
    assert not Pins().path.exists()


@pytest.mark.parametrize("given", ["", "ab", "SHA256:abc", "G" * 64, "AB" * 32])
def test_malformed_signer_key_is_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotAKey, match="64 lower-case hexadecimal digits"):
        Client(signers=[given])
    monkeypatch.setenv("TUNER_SIGNERS", f"{'0' * 64},{given}")
    with pytest.raises(NotAKey):
        Client()


def test_a_service_without_keys_is_not_pinned(client: Client, hostile: Hostile) -> None:
    honest, hostile.keys = hostile.keys, []
    with pytest.raises(UntrustedSigner, match="among the keys pinned for"):
        loads(client)
    hostile.keys = honest
    loads(client)


def test_library_signed_by_this_machine_is_trusted_without_asking(
    client: Client, hostile: Hostile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from tuner.library.signing_key import own_key

    path = tmp_path / "own" / "key.pem"
    monkeypatch.setenv("TUNER_SIGNING_KEY", str(path))
    hostile.files["signature"] = signed.sign(own_key(path), hostile.files["manifest"]).to_json()
    loads(client)
    assert "/signers" not in hostile.paths


@pytest.mark.parametrize("url", ["http://elsewhere/x", "HTTPS://elsewhere/x", "elsewhere", ""])
def test_artifact_link_that_leaves_the_service_is_refused(client: Client, url: str) -> None:
    """A link to another host is refused: that host would be sent the API key. Cached answers are
    checked too, as somebody else may have written them."""
    best = client.best("conv1d", SHAPE).model_dump(mode="json")
    best["artifacts"]["library"]["url"] = url
    content = json.dumps(best).encode()
    with pytest.raises(ServiceError, match="is no Best"):
        parse(Best, content, 200, client.url, "it")


def test_invalid_workload_in_an_answer_raises_a_service_error(
    client: Client, hostile: Hostile
) -> None:
    """Even the best's workload may be invalid: a length of -1 is an error of the service."""
    best: dict[str, Any] = hostile.best
    hostile.best = best | {"workload": best["workload"] | {"M": -1}}
    with pytest.raises(ServiceError, match="it answers with"):
        loads(client)
