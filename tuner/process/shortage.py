"""Recognition of errors that say that the host or its GPU ran out of memory, or the host out of
file descriptors."""

from __future__ import annotations

SAID = (
    "out of memory",
    "out_of_memory",  # CUDA's driver
    "cudaerrormemoryallocation",  # CUDA's runtime
    "terminated with signal 9",  # a linker that the kernel has killed, as its compiler says
    "killed signal terminated",  # the same of the compiler's other programs
    "too many open files",
)
"""Parts of such errors' messages, in lower case."""


def is_shortage(message: str) -> bool:
    """Return whether an error's message says that memory or file descriptors ran out."""
    message = message.lower()
    return any(said in message for said in SAID)
