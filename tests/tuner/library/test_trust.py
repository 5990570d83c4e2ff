"""Trust in libraries: pins of services' keys, ``tuner trust``, and library files that come without
a service."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from dishonest import Hostile
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from small_libraries import seal
from stored_best import store

from db.results import signed
from tests.tuner import shell
from tests.tuner.answering import running
from tuner.client.local import Local
from tuner.errors import BrokenArtifact, TunerError, UntrustedSigner, UnusableFile
from tuner.job import artifact
from tuner.library.load import load
from tuner.library.pins import Pins
from tuner.library.signing_key import own_key, public_key_of
from tuner.settings import Settings

URL = "http://gpu-host:8000"
KEYS = [f"{digit}" * 64 for digit in "0123"]
KEY = Ed25519PrivateKey.generate()
PUBLIC = public_key_of(KEY)


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pins:
    """Give the machine an empty configuration folder: no pins, no key of its own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return Pins()


def test_pins_are_kept_for_each_service(fresh: Pins) -> None:
    assert (fresh.of(URL), fresh.all()) == (None, frozenset())
    assert fresh.meet(URL, KEYS[:2]) == frozenset(KEYS[:2])
    assert fresh.meet(f"{URL}/", KEYS[2:]) == frozenset(KEYS[:2])  # the first keys stay pinned
    assert fresh.of("http://gpu-host:8001") is None
    fresh.replace("http://other", KEYS[1:3])
    assert fresh.replace(URL, KEYS[3:]) == fresh.of(URL) == frozenset(KEYS[3:])
    assert fresh.all() == frozenset(KEYS[1:])


def test_concurrent_threads_lose_no_pins(fresh: Pins) -> None:
    urls = [f"http://host-{n}" for n in range(24)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda url: Pins().meet(url, KEYS[:1]), urls))
    assert [fresh.of(url) for url in urls] == [frozenset(KEYS[:1])] * 24


@pytest.mark.parametrize(("what", "mode"), [("signers.json", 0o664), (".", 0o777)])
def test_pins_that_others_may_write_are_refused(fresh: Pins, what: str, mode: int) -> None:
    fresh.replace(URL, KEYS)
    written = fresh.path.parent / what
    written.chmod(mode)
    with pytest.raises(UnusableFile, match=f"mode is {mode:04o}; if nobody did: chmod go-w"):
        fresh.of(URL)
    with pytest.raises(UnusableFile, match="chmod go-w"):
        fresh.meet("http://other", KEYS)
    written.chmod(0o700)
    assert fresh.of(URL) == frozenset(KEYS)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("what", ["signers.json", "."])
def test_pins_of_another_user_are_refused(fresh: Pins, what: str) -> None:
    fresh.replace(URL, KEYS)
    os.chown(fresh.path.parent / what, 4321, -1)
    with pytest.raises(UnusableFile, match="belongs to user 4321"):
        fresh.all()


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"a": "b"}', '{"a": ["xy"]}', '{"a": [1]}', "[" * 100_000, "\xff"]
)
def test_damaged_pins_are_refused_and_left_unchanged(fresh: Pins, content: str) -> None:
    fresh.path.parent.mkdir(parents=True)
    fresh.path.write_bytes(content.encode("latin-1"))
    for call in (lambda: fresh.of(URL), fresh.all, lambda: fresh.meet(URL, KEYS)):
        with pytest.raises(UnusableFile, match="does not say which keys are trusted"):
            call()
    assert fresh.path.read_bytes() == content.encode("latin-1")


@pytest.fixture
def service() -> Iterator[Hostile]:
    with running(Hostile({}, {}, KEYS[:1])) as server:
        yield server


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str, Any]:
    code, out, err = shell.ran(capsys, "trust", *arguments)
    return out, err, code


def test_trust_command_pins_the_keys_of_a_service(
    fresh: Pins, service: Hostile, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _, code = ran(capsys, service.url, "--yes")
    assert not code
    assert f"new     {signed.fingerprint(KEYS[0])}  {KEYS[0]}  evil" in out
    assert fresh.of(service.url) == frozenset(KEYS[:1])
    out, _, code = ran(capsys, service.url)  # no --yes: nothing is new, so it does not ask
    assert not code
    assert out.startswith("pinned  SHA256:")
    service.keys = KEYS[1:3]
    out, _, code = ran(capsys, service.url, "--yes")
    assert [line.split()[0] for line in out.splitlines()][:3] == ["new", "new", "gone"]
    assert fresh.of(service.url) == frozenset(KEYS[1:3])


def test_trust_command_pins_keys_only_if_the_user_says_yes(fresh: Pins, service: Hostile) -> None:
    """Only "y" on standard input accepts keys; "n" or the end of the input changes nothing."""
    for answer, expected in (("n\n", None), ("", None), ("y\n", frozenset(KEYS[:1]))):
        asked = subprocess.run(
            [sys.executable, "-m", "tuner.cli.app", "trust", service.url],
            input=answer,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert fresh.of(service.url) == expected
        said = (
            "tuner: nothing was changed, because the question was not answered with yes; "
            "--yes answers it in advance"
        )
        assert asked.stderr.splitlines() == ([said] if expected is None else [])
        assert asked.returncode == (1 if expected is None else 0)


def test_trust_command_fails_if_the_service_has_no_keys(
    fresh: Pins, service: Hostile, capsys: pytest.CaptureFixture[str]
) -> None:
    service.keys = []
    _, err, code = ran(capsys, service.url, "--yes")
    assert (code, "has no keys" in err) == (1, True)
    assert fresh.of(service.url) is None


@pytest.fixture
def library(libraries: dict[str, Path], tmp_path: Path) -> Path:
    """Return the path of a library whose manifest is signed by another machine's key."""
    path = tmp_path / "library.so"
    shutil.copy(libraries["full-serial"], path)
    seal(path, json.loads(libraries["full-serial"].with_suffix(".json").read_text()), KEY)
    return path


def test_library_file_loads_only_if_its_signer_is_known(fresh: Pins, library: Path) -> None:
    with pytest.raises(UntrustedSigner, match="not pinned on this machine"):
        load(library)
    with pytest.raises(UntrustedSigner, match="signers= or TUNER_SIGNERS"):
        load(library, signers=KEYS)
    load(library, signers=[PUBLIC])
    fresh.meet(URL, [PUBLIC])
    load(library)


def test_library_file_without_signature_or_manifest_is_refused(fresh: Pins, library: Path) -> None:
    signature, manifest = library.with_suffix(".sig"), library.with_suffix(".json")
    signature.rename(library.with_suffix(".kept"))
    with pytest.raises(UntrustedSigner, match=r"has no signature at .*library\.sig"):
        load(library, signers=[PUBLIC])
    load(library, signature=library.with_suffix(".kept"), signers=[PUBLIC])
    manifest.unlink()
    with pytest.raises(BrokenArtifact, match="has no manifest at"):
        load(library, signers=[PUBLIC])


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_bit_in_library_manifest_or_signature_is_refused(
    fresh: Pins, library: Path, data: st.DataObject
) -> None:
    suffix = data.draw(st.sampled_from([".so", ".json", ".sig"]))
    sound = library.with_suffix(suffix).read_bytes()
    bit = data.draw(st.integers(0, 8 * len(sound) - 1))
    flipped = bytearray(sound)
    flipped[bit // 8] ^= 1 << bit % 8
    path = library.with_suffix(suffix)
    path.write_bytes(flipped)
    with pytest.raises((BrokenArtifact, UntrustedSigner)):
        load(library, signers=[PUBLIC])
    path.write_bytes(sound)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from([10**400, "cpu", "conv1d", '{"operator":[]}', "[" * 5000]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


def paths_of(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the keys that lead to each value in nested dictionaries, the dictionaries included."""
    inside = value.items() if isinstance(value, dict) else ()
    return [at] * bool(at) + [p for key, each in inside for p in paths_of(each, (*at, key))]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_hostile_manifest_with_a_trusted_signature_raises_only_tuner_errors(
    fresh: Pins, library: Path, tmp_path: Path, data: st.DataObject
) -> None:
    """A real manifest with one replaced field either loads, if nothing reads the field, or is
    refused with a TunerError of reasonable length. No other exception is raised."""
    manifest = json.loads(library.with_suffix(".json").read_text())
    *outer, last = data.draw(st.sampled_from(paths_of(manifest)))
    place = manifest
    for key in outer:
        place = place[key]
    place[last] = data.draw(JSON)
    hostile = library.with_name("hostile.json")
    content = json.dumps(manifest).encode()
    hostile.write_bytes(content)
    hostile.with_suffix(".sig").write_bytes(signed.sign(KEY, content).to_json())
    try:
        load(library, hostile, signers=[PUBLIC])
    except TunerError as error:
        assert 20 < len(str(error)) < 1000


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
@example(content=b"[" * 200_000)
@example(content=b'{"manifest_version": ' + b"9" * 10_000 + b"}")
@example(content=b'{"manifest_version": 2, "workload_key": "' + b"[" * 100_000 + b'"}')
@example(content=b'{"manifest_version": ' + b"[" * 500 + b"]" * 500 + b"}")
@example(content=b'{"manifest_version": "\\ud800"}')
def test_bytes_that_are_no_manifest_are_refused(fresh: Pins, library: Path, content: bytes) -> None:
    hostile = library.with_name("hostile.json")
    hostile.write_bytes(content)
    hostile.with_suffix(".sig").write_bytes(signed.sign(KEY, content).to_json())
    with pytest.raises(BrokenArtifact, match="the manifest of"):
        load(library, hostile, signers=[PUBLIC])


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
@example(content=b"[" * 200_000)
@example(content=b'{"manifest": [], "public_key": [], "signature": []}')
def test_bytes_that_are_no_signature_are_refused(
    fresh: Pins, library: Path, content: bytes
) -> None:
    hostile = library.with_name("hostile.sig")
    hostile.write_bytes(content)
    with pytest.raises(BrokenArtifact, match="the signature of"):
        load(library, signature=hostile, signers=[PUBLIC])


def test_signature_over_the_bare_bytes_is_no_signature_of_a_manifest(library: Path) -> None:
    """The same key may have signed the bare bytes for another purpose. That signature is no
    signature of a manifest."""
    content = library.with_suffix(".json").read_bytes()
    right = signed.parse(library.with_suffix(".sig").read_bytes())
    bare = signed.Signature(right.manifest, right.public_key, KEY.sign(content).hex())
    right.check(content)
    with pytest.raises(signed.BadSignature):
        bare.check(content)
    assert artifact.signed_manifest(json.loads(content), KEY)[1].content == right.to_json()


def test_local_database_of_another_key_loads_only_if_that_key_is_named(
    fresh: Pins, libraries: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Libraries from a database of another user or machine load only if the settings or
    TUNER_SIGNERS name its key."""
    monkeypatch.setenv("TUNER_SIGNING_KEY", str(tmp_path / "theirs.pem"))
    theirs = own_key(tmp_path / "theirs.pem")
    library = tmp_path / "full-serial.so"
    shutil.copy(libraries["full-serial"], library)
    seal(library, json.loads(libraries["full-serial"].with_suffix(".json").read_text()), theirs)
    url = f"sqlite:///{tmp_path / 'convtune.db'}"
    with Local(Settings(database_url=url), cache=tmp_path / "cache") as local:
        store(local._engine, library)
        best = local.best("conv1d", M=16384, N=32)
        local.load(best)
    monkeypatch.delenv("TUNER_SIGNING_KEY")
    named = Settings(database_url=url, signing_key=tmp_path / "theirs.pem")
    with Local(named, cache=tmp_path / "cache") as local:
        local.load(best)
    with (
        Local(Settings(database_url=url), cache=tmp_path / "cache") as local,
        pytest.raises(UntrustedSigner, match=r"not this machine's own key .*TUNER_SIGNERS"),
    ):
        local.load(best)
    monkeypatch.setenv("TUNER_SIGNERS", public_key_of(theirs))
    with Local(Settings(database_url=url), cache=tmp_path / "cache") as local:
        local.load(best)
