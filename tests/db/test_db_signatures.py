"""Signers, and the check that a best's files are those that its worker has signed."""

import json
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, delete, select, update
from storage_rows import FILES, claimed, device, everything, new_best, new_trial, submitted

from db.results import artifacts, best, signed, signers, trials
from db.results.artifacts import NewArtifact
from db.sql import tables
from db.sql.errors import DuplicateTrial
from db.sql.transaction import reading, writing
from db.upkeep import prune
from db.upkeep.check import check

KEY, OTHER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
KINDS = ("library", "source", "record", "manifest", "signature")


def signer(key: Ed25519PrivateKey = KEY) -> signers.NewSigner:
    return signers.NewSigner(key.public_key().public_bytes_raw().hex(), "gpu-host")


def signed_files(of: str, /, key: Ed25519PrivateKey = KEY, **changes: Any) -> list[NewArtifact]:
    """Return a best's artifacts with manifest and signature; ``changes`` alter the manifest."""
    named = [*FILES, NewArtifact(b'{"trace": []}', "record", "application/json")]
    said: dict[str, Any] = {
        file.kind: {"sha256": file.sha256, "size": len(file.content)} for file in named
    }
    content = json.dumps(said | {"workload_key": of} | changes).encode()
    return [
        *named,
        NewArtifact(content, "manifest", "application/json"),
        NewArtifact(signed.sign(key, content).to_json(), "signature", "application/json"),
    ]


def tuned(
    engine: Engine,
    length: int = 64,
    time_us: float = 1.5,
    compared: Collection[tuple[str, int]] = (),
    trusted: Collection[str] | None = None,
    **changes: Any,
) -> dict[str, str]:
    """Store a job with a signed best, and return the SHA-256 names of its files by kind."""
    submitted(engine, length)
    job, gpu = claimed(engine), device(engine).id
    with suppress(DuplicateTrial):
        trials.add(engine, job.id, job.attempt, [new_trial(gpu, 64)])
    files = signed_files(job.workload_key, **changes)
    best.finish_with_bests(
        engine,
        job.id,
        job.attempt,
        [best.BestWithFiles(new_best(job, gpu, time_us=time_us), files)],
        signer(),
        compared,
        trusted,
    )
    return {file.kind: file.sha256 for file in files}


def test_a_signer_is_registered_once(engine: Engine) -> None:
    assert signers.list_signers(engine) == []
    signers.register(engine, signer())
    before = everything(engine)
    signers.register(engine, signers.NewSigner(signer().public_key, "another host"))
    assert everything(engine) == before
    signers.register(engine, signer(OTHER))
    first, second = signers.list_signers(engine)
    assert (first.public_key, first.host) == (signer().public_key, "gpu-host")
    assert first.created_at.tzname() == "UTC"
    assert first.created_at <= second.created_at
    assert first.fingerprint != second.fingerprint


def test_a_fingerprint_is_written_as_ssh_does() -> None:
    key = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert signed.fingerprint(key) == "SHA256:If4x36FUomFia/hUBG/SJxt77UtqvkWqWId+9H+XIbk"


def test_signer_is_registered_only_if_its_best_is_stored(engine: Engine) -> None:
    tuned(engine)
    assert [found.public_key for found in signers.list_signers(engine)] == [signer().public_key]
    submitted(engine, 65)
    job, gpu = claimed(engine), device(engine).id
    given = new_best(job, gpu, artifacts={"manifest": "0" * 64})
    before = everything(engine)
    with pytest.raises(Exception, match="no artifact"):
        best.finish_with_bests(
            engine, job.id, job.attempt, [best.BestWithFiles(given, FILES)], signer(OTHER)
        )
    assert everything(engine) == before


def test_check_finds_nothing_wrong_with_a_signed_best(engine: Engine) -> None:
    tuned(engine)
    found = check(engine)
    assert (found.wrong, found.notes) == ([], [])


def test_a_best_that_nobody_signed_is_only_noted(engine: Engine) -> None:
    tuned(engine)
    unsigned(engine)
    found = check(engine)
    assert found.wrong == []
    assert [note for note in found.notes if note.startswith("unsigned bests: 1;")]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("dialect", ["sqlite"])
def test_check_finds_a_flipped_bit_in_any_file(engine: Engine, data: st.DataObject) -> None:
    """A flipped bit in any file is found, even if the file is renamed after its new SHA-256."""
    with reading(engine) as connection:
        if connection.execute(select(tables.bests.c.id)).first() is None:
            connection.close()
            tuned(engine)
    kind = data.draw(st.sampled_from(KINDS))
    renamed = data.draw(st.booleans())
    with reading(engine) as connection:
        of_kind = tables.best_artifacts.c.kind == kind
        name = connection.execute(
            select(tables.best_artifacts.c.sha256).where(of_kind)
        ).scalar_one()
    sound = artifacts.get(engine, name)
    bit = data.draw(st.integers(0, 8 * sound.size - 1))
    changed = bytearray(sound.content)
    changed[bit // 8] ^= 1 << bit % 8
    new = NewArtifact(bytes(changed), sound.kind, sound.media_type)
    links = update(tables.best_artifacts).where(of_kind)
    row = update(tables.artifacts).where(tables.artifacts.c.sha256 == name)
    with writing(engine) as connection:
        if renamed:
            artifacts.write(connection, new)
            connection.execute(links.values(sha256=new.sha256))
        else:
            connection.execute(row.values(content=new.content))
    wrong = check(engine).wrong
    with writing(engine) as connection:
        connection.execute(links.values(sha256=name))
        connection.execute(row.values(content=sound.content))
    assert any(line.startswith("best 1 (") or name in line for line in wrong)
    assert check(engine).wrong == []


def first_line(engine: Engine) -> str:
    return check(engine).wrong[0]


def test_check_finds_a_best_signed_by_an_unknown_key(engine: Engine) -> None:
    tuned(engine, key=OTHER)
    assert "SHA256:" in first_line(engine)
    assert "which no worker has registered; tune it again" in first_line(engine)


def withdrawn(engine: Engine) -> None:
    signers.withdraw(engine, signer(OTHER).public_key)


def rotten(engine: Engine) -> None:
    with writing(engine) as connection:
        of_kind = tables.artifacts.c.kind == "library"
        connection.execute(update(tables.artifacts).where(of_kind).values(content=b"rot"))


def unsigned(engine: Engine) -> None:
    with writing(engine) as connection:
        of_kind = tables.best_artifacts.c.kind == "signature"
        connection.execute(delete(tables.best_artifacts).where(of_kind))


@pytest.mark.parametrize("harm", [withdrawn, rotten, unsigned])
def test_a_faster_best_that_clients_refuse_is_replaced(
    engine: Engine, harm: Callable[[Engine], None]
) -> None:
    """The error tells users to tune again, so tuning must help even if the new best is slower."""
    signers.register(engine, signer(OTHER))
    tuned(engine, key=OTHER)
    harm(engine)
    again = tuned(engine, time_us=2.0)
    [found] = best.lookup(engine, submitted(engine).workload_key)
    assert (found.time_us, found.artifacts) == (2.0, again)
    assert check(engine).wrong == []


def test_faster_best_that_clients_load_is_kept(engine: Engine) -> None:
    first = tuned(engine)
    tuned(engine, time_us=2.0, timing=2)
    [found] = best.lookup(engine, submitted(engine).workload_key)
    assert (found.time_us, found.artifacts) == (1.5, first)


CONFIG = trials.config_key({"template": "direct", "threads": 64})


@pytest.mark.parametrize(
    ("compared", "trusted", "stays"),
    [
        ({(CONFIG, 1)}, [KEY], False),
        ({(CONFIG, 1)}, [KEY, OTHER], True),
        ({(CONFIG, 1)}, None, True),
        ({(CONFIG, 2), ("0" * 32, 1)}, [KEY], True),  # another version, another configuration
    ],
)
def test_faster_best_of_another_key_is_kept_if_trusted_or_not_compared(
    engine: Engine,
    compared: Collection[tuple[str, int]],
    trusted: Collection[Ed25519PrivateKey] | None,
    stays: bool,
) -> None:
    """A user who does not trust the key is told to tune again, so tuning must help."""
    signers.register(engine, signer(OTHER))
    first = tuned(engine, key=OTHER)
    keys = None if trusted is None else [signer(key).public_key for key in trusted]
    again = tuned(engine, time_us=2.0, compared=compared, trusted=keys, timing=2)
    [found] = best.lookup(engine, submitted(engine).workload_key)
    assert (found.time_us, found.artifacts) == ((1.5, first) if stays else (2.0, again))
    assert check(engine).wrong == []


def test_check_finds_a_best_with_the_files_of_another(engine: Engine) -> None:
    tuned(engine)
    tuned(engine, 65)
    mine = tables.best_artifacts.alias()
    theirs = select(mine.c.sha256).where(
        mine.c.best_id == 2, mine.c.kind == tables.best_artifacts.c.kind
    )
    moved = update(tables.best_artifacts).where(tables.best_artifacts.c.best_id == 1)
    with writing(engine) as connection:
        connection.execute(moved.values(sha256=theirs.scalar_subquery()))
    assert "its signed manifest is of another workload" in first_line(engine)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"library": None}, "its manifest can't be read"),
        ({"library": {"sha256": "0" * 64, "size": 9}}, "its library is not the one"),
        ({"record": {"sha256": FILES[0].sha256, "size": 12}}, "its record is not the one"),
        ({"workload_key": "{}"}, "is of another workload"),
    ],
)
def test_check_finds_a_manifest_that_does_not_fit_its_best(
    engine: Engine, changes: dict[str, Any], says: str
) -> None:
    tuned(engine, **changes)
    assert says in first_line(engine)


def test_prune_keeps_the_signature_of_a_best_and_deletes_the_former(engine: Engine) -> None:
    first = tuned(engine)
    second = tuned(engine, timing=2)  # replaces the first, as it is of the same workload
    assert first["signature"] != second["signature"]
    assert prune.prune(engine, 0).artifacts == 2  # manifest and signature; both share the others
    left = {row[0] for row in everything(engine)["artifacts"]}
    assert left == set(second.values())
    assert len(signers.list_signers(engine)) == 1
    assert check(engine).wrong == []
