"""The client's cache on disk: artifacts by their SHA-256, and answers by their URL.

An artifact is hashed each time before it is used. An answer is used only after the service
confirms, by its ETag, that it still holds.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile, _TemporaryFileWrapper

from tuner.config import user_folder
from tuner.errors import BrokenArtifact, UnusableFile
from tuner.library.load import check_sha256

log = logging.getLogger("tuner.client")


def default_folder() -> Path:
    """Return convtune's cache folder, by the XDG base directory specification.

    Raises UnusableFile if this user has no home.
    """
    return user_folder("XDG_CACHE_HOME", ".cache")


class Cache:
    """A cache folder with access for its owner alone, because its files are loaded as code.

    The folder is created when it is first written to. Several processes may share it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = Path(folder) if folder is not None else default_folder()

    def find(self, name: str, sha256: str) -> Path | None:
        """Return the path of the cached file ``name``, None if it is not in the cache.

        A file whose bytes do not hash to ``sha256`` is deleted, and so is a folder in its place.
        Raises UnusableFile if deleting is not allowed.
        """
        path = self.folder / name
        if not path.exists():
            return None
        try:
            check_sha256(path, sha256)
        except BrokenArtifact as error:
            log.warning("%s; it is removed from the cache and asked for again", error)
            with self._writing():
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
            return None
        return path

    def keep(self, name: str, sha256: str, size: int, chunks: Iterable[bytes]) -> Path:
        """Write the chunks atomically as the file ``name`` and return its path.

        Raises BrokenArtifact if there are more than ``size`` bytes or if they do not hash to
        ``sha256``, and UnusableFile if the folder can't be written to.
        """
        with self._partial() as file:
            digest, taken = hashlib.sha256(), 0
            for chunk in chunks:
                taken += len(chunk)
                if taken > size:
                    raise BrokenArtifact(f"{name} came with more than its {size} bytes")
                digest.update(chunk)
                with self._writing():
                    file.write(chunk)
            if digest.hexdigest() != sha256:
                raise BrokenArtifact(f"{name} came with bytes that hash to {digest.hexdigest()}")
            with self._writing():
                file.flush()
                return Path(file.name).replace(self.folder / name)

    def answer(self, url: str) -> tuple[str, bytes] | None:
        """Return the ETag and content of the last answer at ``url``.

        Return None if no answer is stored, or if the stored answer is damaged.
        """
        try:
            sha256, etag, content = self._answer_at(url).read_bytes().split(b"\n", 2)
        except (OSError, ValueError):
            return None
        whole = hashlib.sha256(etag + content).hexdigest().encode() == sha256
        return (etag.decode(), content) if whole else None

    def keep_answer(self, url: str, etag: str, content: bytes) -> None:
        """Store an answer in place of an earlier one at ``url``.

        Do nothing if the folder can't be written to: the answer is then just asked for again.
        """
        sha256 = hashlib.sha256(etag.encode() + content).hexdigest()
        with suppress(UnusableFile), self._partial() as file, self._writing():
            file.write(b"\n".join((sha256.encode(), etag.encode(), content)))
            file.flush()
            Path(file.name).replace(self._answer_at(url))

    @contextmanager
    def _partial(self) -> Iterator[_TemporaryFileWrapper[bytes]]:
        """Yield a temporary file in the folder; it is deleted on exit unless it was renamed.

        Raises UnusableFile.
        """
        with self._writing():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = NamedTemporaryFile(  # noqa: SIM115  # closed below
                prefix=".partial-", dir=self.folder, delete=False
            )
        try:
            yield file
        finally:
            with suppress(OSError):  # of a full disk, which flushing has raised before
                file.close()
            Path(file.name).unlink(missing_ok=True)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UnusableFile(
                self.folder,
                f"nothing can be written there ({error.strerror or error}); name another folder in "
                "XDG_CACHE_HOME, or give the client one: cache=",
            ) from error

    def _answer_at(self, url: str) -> Path:
        return self.folder / f"{hashlib.sha256(url.encode()).hexdigest()}.answer"
