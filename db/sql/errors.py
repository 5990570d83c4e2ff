"""All errors that the storage raises:

StorageError
├── DatabaseUnavailable
│   ├── DatabaseFull
│   └── DatabaseDamaged
├── SchemaMismatch
├── NotFound
├── AmbiguousId
├── JobEnded
├── ModelEnded
├── LeaseLost
├── DuplicateTrial
├── IdempotencyConflict
├── TooManyKeys
├── BadCursor
├── BadKey
├── QuotaExceeded
├── BackupRefused
├── SignerNotRegistered
└── CorruptArtifact
"""

from collections.abc import Sequence


class StorageError(Exception):
    """The storage refused; nothing was written."""


class DatabaseUnavailable(StorageError):
    """The database can't be opened, or did not answer: check TUNER_DATABASE_URL and its server."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"the database {url} is not available: {reason}")
        self.url = url


class DatabaseFull(DatabaseUnavailable):
    """The disk of the database is full: make room on it."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, f"{reason}; make room on the disk of the database")


class DatabaseDamaged(DatabaseUnavailable):
    """The database's file is damaged: put a backup in its place."""

    def __init__(self, url: str, reason: str) -> None:
        self.finding = f"{reason}; put a backup in its place: tuner db restore"
        super().__init__(url, self.finding)


class SchemaMismatch(StorageError):
    """The database's schema is not the one this code was written for."""


_LISTED_BY = {
    "job": "tuner jobs list, or GET /jobs",
    "model": "tuner model list, or GET /models",
    "signer": "tuner signers list, or GET /signers",
    "unrevoked key": "tuner keys list",
}


class NotFound(StorageError):
    """There is no such row: check the id."""

    def __init__(self, what: str, name: object) -> None:
        way = f"; see {_LISTED_BY[what]}" if what in _LISTED_BY else ""
        super().__init__(f"there is no {what} {str(name)[:80]!r}{way}")


class AmbiguousId(StorageError):
    """The ids of several rows begin with these digits: give more of the id."""

    def __init__(self, what: str, prefix: str, found: Sequence[str]) -> None:
        super().__init__(
            f"several {what}s begin with {prefix!r}: {', '.join(found)}; give more of the id"
        )


class JobEnded(StorageError):
    """The job has ended already and can't be cancelled any more."""

    def __init__(self, job_id: str, state: str) -> None:
        super().__init__(
            f"job {job_id} has already {state}"
            if state != "cancelled"
            else f"job {job_id} was already cancelled"
        )
        self.state = state


class ModelEnded(StorageError):
    """The model has ended already and can't be cancelled any more."""

    def __init__(self, model_id: str, state: str) -> None:
        has = "was already" if state == "cancelled" else "has already"
        super().__init__(f"model {model_id} {has} {state}")


class LeaseLost(StorageError):
    """Another attempt holds the job, or it is queued again or has ended: stop working on it."""

    def __init__(self, job_id: str, attempt: int) -> None:
        super().__init__(f"attempt {attempt} no longer holds job {job_id}; nothing was written")


class DuplicateTrial(StorageError):
    """A configuration has a stored trial already: read db.results.trials.measured_trials
    before measuring."""


class IdempotencyConflict(StorageError):
    """The Idempotency-Key was used for another order: send a new key with a new order."""


class TooManyKeys(StorageError):
    """The orderer has too many stored Idempotency-Keys: order without one, or wait a day."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"at most {limit} Idempotency-Keys of one orderer are kept, each for a day; "
            "send the order without one, or wait"
        )
        self.limit = limit


class BadCursor(StorageError):
    """The cursor was not made by this list: start again without one."""

    def __init__(self) -> None:
        super().__init__("the cursor was not made by this list; start again without one")


class BadKey(StorageError):
    """An API key can't have this name: the message says what to give instead."""


class QuotaExceeded(StorageError):
    """The orderer would have too many unfinished jobs: wait until one has ended, or cancel one."""

    def __init__(self, limit: int, ordered: int = 1) -> None:
        super().__init__(
            f"at most {limit} jobs of one key may be unfinished; "
            "wait until one has ended, or cancel one"
            + (f", or order less: this would make {ordered}" if ordered > 1 else "")
        )
        self.limit = limit


class BackupRefused(StorageError):
    """The database can't be backed up or restored: the message says what to do."""


class SignerNotRegistered(StorageError):
    """A stored signature is by a key that no worker has registered, or that was withdrawn: tune the
    workload again."""

    def __init__(self, sha256: str, fingerprint: str) -> None:
        super().__init__(
            f"the artifact {sha256} is a signature by {fingerprint}, which no worker has "
            "registered, or whose key was withdrawn; tune its workload again, with on_existing "
            "retune, to have it signed anew"
        )


class CorruptArtifact(StorageError):
    """The stored bytes of an artifact do not match their hash, or are an invalid signature: tune
    the workload again to replace them."""

    def __init__(self, sha256: str, why: str = "do not match their name") -> None:
        super().__init__(
            f"the stored bytes of artifact {sha256} {why}; tune its workload again, with "
            "on_existing retune, to replace them"
        )
