"""An HTTP proxy that passes all answers on unchanged, except for libraries (ELF files): a function
of the test changes their bytes."""

from collections.abc import Callable
from urllib.request import urlopen

from tests.tuner.answering import Answering


class Meddler(Answering):
    """A proxy in front of the service at ``upstream``; ``meddle`` changes a library's bytes."""

    def __init__(self, upstream: str, meddle: Callable[[bytes], bytes]) -> None:
        super().__init__()
        self.upstream, self.meddle = upstream, meddle

    def answer(self, path: str) -> bytes:
        with urlopen(self.upstream + path) as answer:  # noqa: S310
            content: bytes = answer.read()
        return self.meddle(content) if content.startswith(b"\x7fELF") else content
