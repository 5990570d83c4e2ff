"""API keys: creation, scopes, revocation and expiry."""

import hashlib
import re

import pytest
from sqlalchemy import Engine, update
from storage_rows import everything

from db.access import keys
from db.sql.errors import BadKey, NotFound
from db.sql.tables import api_keys
from db.sql.transaction import writing


def test_create_returns_a_secret_and_stores_only_its_hash(engine: Engine) -> None:
    key, secret = keys.create(engine, "ci", "submit")
    assert re.fullmatch(r"ct_[A-Za-z0-9_-]{43}", secret)  # 256 bits
    assert (key.name, key.scope, key.state, key.expires_at) == ("ci", "submit", "valid", None)
    assert secret not in str(everything(engine))
    assert hashlib.sha256(secret.encode()).hexdigest() in str(everything(engine))
    assert keys.unrevoked(engine) == {keys.digest(secret): key}
    assert keys.create(engine, "other", "submit")[1] != secret


def test_each_scope_includes_the_scopes_before_it(engine: Engine) -> None:
    made = {scope: keys.create(engine, scope, scope)[0] for scope in keys.SCOPES}
    assert {name: [s for s in keys.SCOPES if key.may(s)] for name, key in made.items()} == {
        "read": ["read"],
        "submit": ["read", "submit"],
        "admin": ["read", "submit", "admin"],
    }


@pytest.mark.parametrize("by_name", [True, False])
def test_revoked_key_is_listed_but_no_longer_valid(engine: Engine, *, by_name: bool) -> None:
    key, _ = keys.create(engine, "ci", "submit")
    kept, secret = keys.create(engine, "kept", "read")
    revoked, left = keys.revoke(engine, "ci" if by_name else str(key.id))
    assert (revoked.id, revoked.state, left) == (key.id, "revoked", 1)
    assert revoked.revoked_at is not None
    assert keys.unrevoked(engine) == {keys.digest(secret): kept}
    assert keys.list_keys(engine) == [revoked, kept]


@pytest.mark.parametrize("which", ["ci", "1", "99", "nobody", "", "9" * 30, "١", "a\0\ud800"])
def test_revoking_an_unknown_or_revoked_key_raises_not_found(engine: Engine, which: str) -> None:
    keys.create(engine, "ci", "submit")
    keys.create(engine, "kept", "submit")
    keys.revoke(engine, "ci")
    before = everything(engine)
    with pytest.raises(NotFound, match="no unrevoked key"):
        keys.revoke(engine, which)
    assert everything(engine) == before


def test_a_name_is_free_again_once_its_key_is_revoked(engine: Engine) -> None:
    first, _ = keys.create(engine, "ci", "submit")
    with pytest.raises(BadKey, match=r"a key 'ci' already.*another name, or revoke"):
        keys.create(engine, "ci", "read")
    keys.revoke(engine, "ci")
    again, _ = keys.create(engine, "ci", "read")
    assert again.id != first.id
    assert keys.revoke(engine, "ci")[0].id == again.id


@pytest.mark.parametrize("name", ["", "7", "two words", "é", "a" * 65, "a\n", "-x"])
def test_invalid_key_name_is_refused(engine: Engine, name: str) -> None:
    with pytest.raises(BadKey, match="must begin with a letter and have at most 64"):
        keys.create(engine, name, "read")
    assert keys.list_keys(engine) == []


def test_a_key_expires_by_the_clock_of_the_database(engine: Engine) -> None:
    key, secret = keys.create(engine, "guest", "read", days=7)
    assert key.expires_at is not None
    assert (key.expires_at - key.created_at).total_seconds() == pytest.approx(7 * keys.DAY, abs=1)
    assert key.state == "valid"
    with writing(engine) as connection:
        connection.execute(update(api_keys).values(expires_at=1.0))
    assert keys.unrevoked(engine)[keys.digest(secret)].state == "expired"
    assert keys.revoke(engine, "guest")[0].state == "revoked"
