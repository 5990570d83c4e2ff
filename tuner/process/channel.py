"""Messages between a process and its child: JSON texts, each after its length in bytes. Values are
validated against the annotations of the function that is called.

Pickle would not be safe: a candidate is native code, and may write anything into the channel.
"""

from __future__ import annotations

import importlib
import inspect
import json
import struct
import time
from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from socket import MSG_PEEK, socket
from typing import Any, Literal, TypeVar, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from tuner.errors import ChildError
from tuner.process.stopping import POLL_SECONDS

LENGTH = struct.Struct("!I")
CHUNK_BYTES = 1 << 16
MOST_BETWEEN_LOOKS = 2 * POLL_SECONDS
"""The most seconds that count towards a deadline between two looks at it."""
ERROR_CHARACTERS = 100_000
"""How much of a traceback's end is sent."""

NUMBERS = ConfigDict(ser_json_inf_nan="constants")
"""NaN and infinity are sent as Python's JSON spells them, because a peer's error may be NaN."""

T = TypeVar("T")


class Malformed(Exception):
    """A message is too long, or is no answer to the call that was made."""


class Deadline:
    """The end of a wait. The waiting code looks at it about every POLL_SECONDS.

    If a look comes far later than that, this process was stopped, as by Ctrl-Z or ``docker pause``.
    The process that it waits for may have been stopped, too, so that time does not count."""

    def __init__(self, seconds: float) -> None:
        self._left, self._last_look = seconds, time.monotonic()

    def look(self) -> float:
        """Return how many seconds are left."""
        now = time.monotonic()
        self._left -= min(now - self._last_look, MOST_BETWEEN_LOOKS)
        self._last_look = now
        return max(0.0, self._left)


def send(channel: socket, text: bytes, timeout: float | None = None) -> None:
    """Send a text. Raise TimeoutError if that takes longer than ``timeout`` seconds, and
    ConnectionError if the far end is closed."""
    channel.settimeout(timeout)
    channel.sendall(LENGTH.pack(len(text)) + text)


def receive(
    channel: socket,
    most: int | None = None,
    deadline: Deadline | None = None,
    check: Callable[[], None] = lambda: None,
) -> bytes:
    """Return the next text. ``check()`` is called about twice a second meanwhile, and may raise.

    Raise Malformed if the text is longer than ``most`` bytes, TimeoutError if it has not arrived by
    the deadline, and EOFError or ConnectionError if the far end is closed."""
    (length,) = LENGTH.unpack(_exactly(channel, LENGTH.size, deadline, check))
    if most is not None and length > most:
        raise Malformed(f"it has {length} bytes, but at most {most} are read")
    return _exactly(channel, length, deadline, check)


def is_drained(channel: socket) -> bool:
    """Return whether the far end is open and all that it has sent was received."""
    channel.setblocking(False)
    try:
        channel.recv(1, MSG_PEEK)
    except BlockingIOError:
        return True
    except ConnectionError:
        pass
    return False


def _exactly(
    channel: socket, size: int, deadline: Deadline | None, check: Callable[[], None]
) -> bytes:
    read = bytearray()
    while len(read) < size:
        left = None if deadline is None else deadline.look()
        channel.settimeout(None if left is None else min(left, POLL_SECONDS))
        try:
            part = channel.recv(min(size - len(read), CHUNK_BYTES))
        except (TimeoutError, BlockingIOError):  # BlockingIOError if no time is left
            if left == 0:
                raise TimeoutError from None
            check()
            continue
        if not part:
            raise EOFError
        read += part
    return bytes(read)


def request(function: Callable[..., Any], arguments: Sequence[Any]) -> bytes:
    """Return the text that asks for a call. Raise what pydantic raises if an argument can't be
    JSON."""
    kinds = _arguments(function, len(arguments))
    plain = kinds.dump_python(tuple(arguments), mode="json", warnings=False)
    return json.dumps([f"{function.__module__}:{function.__qualname__}", plain]).encode()


def read_request(text: bytes) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Import the function that a request names. Return it and its arguments."""
    name, plain = json.loads(text)
    module, _, path = name.partition(":")
    function = attrgetter(path)(importlib.import_module(module))
    return function, _arguments(function, len(plain)).validate_python(plain)


def answer(number: int, function: Callable[..., Any], value: Any) -> bytes:
    """Return the text that says what a call has returned. ``number`` counts a process's calls from
    1."""
    plain = _answer(function).dump_python((number, True, value), mode="json", warnings=False)
    return json.dumps(plain).encode()


def error(number: int, traceback: str) -> bytes:
    """Return the text that says what a call has raised."""
    readable = traceback[-ERROR_CHARACTERS:].encode(errors="replace").decode()
    return json.dumps([number, False, readable]).encode()


def read_answer(number: int, function: Callable[..., T], text: bytes) -> T:
    """Return the value in an answer. Raise ChildError if the call has raised, and Malformed if the
    text is no answer to this call."""
    try:
        answered, succeeded, value = _answer(function).validate_json(text)
    except ValidationError as refused:
        first = refused.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Malformed(f"{where}: {first['msg']}".removeprefix(": ")[:500]) from None
    if answered != number:
        raise Malformed(f"it answers call {answered}, not call {number}")
    if not succeeded:
        raise ChildError(value)
    result: T = value
    return result


@cache
def _arguments(function: Callable[..., Any], count: int) -> TypeAdapter[tuple[Any, ...]]:
    """Return an adapter that validates and serialises the function's first ``count`` arguments."""
    hints = get_type_hints(function, include_extras=True)
    kinds = [hints[name] for name in inspect.signature(function).parameters]
    wanted: Any = tuple[tuple(kinds[:count])]  # type: ignore[misc]
    return TypeAdapter(wanted, config=NUMBERS)


@cache
def _answer(function: Callable[..., Any]) -> TypeAdapter[tuple[int, bool, Any]]:
    """Return an adapter that validates and serialises an answer: the call's number, whether it
    succeeded, and its value or traceback."""
    given: Any = get_type_hints(function, include_extras=True)["return"]
    wanted: Any = tuple[int, Literal[True], given] | tuple[int, Literal[False], str]
    return TypeAdapter(wanted, config=NUMBERS)
