"""Registered public keys of signers (the hosts of workers), and the check of their signatures."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Engine, delete, select

from db.results import artifacts, signed
from db.sql.columns import now, upsert, utc
from db.sql.errors import CorruptArtifact, NotFound, SignerNotRegistered
from db.sql.tables import signers
from db.sql.transaction import reading, writing


@dataclass(frozen=True)
class NewSigner:
    """A public key to register, and the host that signs with it."""

    public_key: str  # 64 hexadecimal digits
    host: str


@dataclass(frozen=True)
class Signer(NewSigner):
    """A registered public key. ``host`` is the host that registered it first."""

    created_at: datetime

    @property
    def fingerprint(self) -> str:
        return signed.fingerprint(self.public_key)


def register(engine: Engine, signer: NewSigner) -> None:
    """Register a key, so that what it signs is served. A key that is registered already stays as it
    is."""
    with writing(engine) as connection:
        write(connection, signer)


def write(connection: Connection, signer: NewSigner) -> None:
    """Register a key as `register` does, within the caller's transaction."""
    statement = upsert(connection, signers).values(
        public_key=signer.public_key, host=signer.host, created_at=now()
    )
    connection.execute(statement.on_conflict_do_nothing())


def list_signers(engine: Engine) -> list[Signer]:
    """Return all registered keys, oldest first."""
    query = select(signers).order_by(signers.c.created_at, signers.c.public_key)
    with reading(engine) as connection:
        rows = connection.execute(query).mappings().all()
    return [Signer(row["public_key"], row["host"], utc(row["created_at"])) for row in rows]


def check_signature(engine: Engine, sha256: str, content: bytes) -> None:
    """Check a stored signature, whose file has these bytes and this hash.

    Raises CorruptArtifact if the signature is invalid or its manifest is missing or damaged, and
    SignerNotRegistered if its signer is not registered."""
    try:
        found = signed.parse(content)
        found.check(artifacts.get(engine, found.manifest).content)
    except signed.BadSignature as error:
        raise CorruptArtifact(sha256, f"are a signature that {error}") from error
    except (NotFound, CorruptArtifact) as error:
        why = "are a signature over a manifest that is missing or damaged"
        raise CorruptArtifact(sha256, why) from error
    with reading(engine) as connection:
        if not is_registered(connection, found.public_key):
            raise SignerNotRegistered(sha256, found.fingerprint)


def is_registered(connection: Connection, public_key: str) -> bool:
    """Return whether this public key, in hexadecimal, is registered."""
    query = select(signers.c.public_key).where(signers.c.public_key == public_key)
    return connection.execute(query).first() is not None


def withdraw(engine: Engine, name: str) -> Signer:
    """Remove a registered key, named by its 64 digits or its fingerprint, and return it.

    Signatures by it are no longer served. A worker that still has the key registers it again.
    Raises NotFound."""
    for signer in list_signers(engine):
        if name in (signer.public_key, signer.fingerprint):
            with writing(engine) as connection:
                of_key = signers.c.public_key == signer.public_key
                connection.execute(delete(signers).where(of_key))
            return signer
    raise NotFound("signer", name)
