"""Errors from which it can be told that memory, of the host or its GPU, or the host's file
descriptors ran out."""

from __future__ import annotations

SAID = (
    "out of memory",
    "out_of_memory",  # CUDA's driver
    "cudaerrormemoryallocation",  # CUDA's runtime
    "terminated with signal 9",  # a linker that the kernel has killed, as its compiler says
    "killed signal terminated",  # the same of the compiler's other programs
    "too many open files",
)
"""What such errors say, in small letters."""


def is_shortage(message: str) -> bool:
    """Return whether an error's message says that memory or file descriptors ran out."""
    message = message.lower()
    return any(said in message for said in SAID)
