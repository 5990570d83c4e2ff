"""What crosses between a process and its child: JSON, each text with its length before it, typed by
the annotations of the function that is called.

Nothing else would do: a candidate is native code, and may write into the channel what it likes.
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
from tuner.process.stopping import LOOK_SECONDS

LENGTH = struct.Struct("!I")
CHUNK_BYTES = 1 << 16
ERROR_CHARACTERS = 100_000
"""The end of a traceback that crosses."""

NUMBERS = ConfigDict(ser_json_inf_nan="constants")
"""Those of Python: a peer's error may be NaN."""

T = TypeVar("T")


class Malformed(Exception):
    """What came is no answer to what was asked."""


def send(channel: socket, text: bytes, deadline: float | None = None) -> None:
    """Raises TimeoutError at the deadline (of ``time.monotonic``), ConnectionError."""
    channel.settimeout(_left(deadline))
    channel.sendall(LENGTH.pack(len(text)) + text)


def receive(
    channel: socket,
    most: int | None = None,
    deadline: float | None = None,
    check: Callable[[], None] = lambda: None,
) -> bytes:
    """The next text, unless it is longer than ``most`` bytes. ``check()`` is called again and again
    meanwhile, and may raise. Raises Malformed, EOFError, TimeoutError at the deadline,
    ConnectionError."""
    (length,) = LENGTH.unpack(_exactly(channel, LENGTH.size, deadline, check))
    if most is not None and length > most:
        raise Malformed(f"{length} bytes, at most {most} are read")
    return _exactly(channel, length, deadline, check)


def silent(channel: socket) -> bool:
    """Whether the far end is there, and has sent nothing that was not received."""
    channel.setblocking(False)
    try:
        channel.recv(1, MSG_PEEK)
    except BlockingIOError:
        return True
    except ConnectionError:
        pass
    return False


def _exactly(
    channel: socket, size: int, deadline: float | None, check: Callable[[], None]
) -> bytes:
    read = bytearray()
    while len(read) < size:
        left = _left(deadline)
        channel.settimeout(None if left is None else min(left, LOOK_SECONDS))
        try:
            part = channel.recv(min(size - len(read), CHUNK_BYTES))
        except TimeoutError:
            part = None
        if part is None:
            check()
        elif not part:
            raise EOFError
        else:
            read += part
    return bytes(read)


def _left(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def request(function: Callable[..., Any], arguments: Sequence[Any]) -> bytes:
    """The call as text. Raises what pydantic raises if an argument has no JSON."""
    kinds = _arguments(function, len(arguments))
    plain = kinds.dump_python(tuple(arguments), mode="json", warnings=False)
    return json.dumps([f"{function.__module__}:{function.__qualname__}", plain]).encode()


def read_request(text: bytes) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The function that the text names, imported, and its arguments."""
    name, plain = json.loads(text)
    module, _, path = name.partition(":")
    function = attrgetter(path)(importlib.import_module(module))
    return function, _arguments(function, len(plain)).validate_python(plain)


def answer(number: int, function: Callable[..., Any], value: Any) -> bytes:
    """What call ``number`` of a process, counted from 1, has given."""
    plain = _answer(function).dump_python((number, True, value), mode="json", warnings=False)
    return json.dumps(plain).encode()


def error(number: int, traceback: str) -> bytes:
    """What it has raised."""
    readable = traceback[-ERROR_CHARACTERS:].encode(errors="replace").decode()
    return json.dumps([number, False, readable]).encode()


def read_answer(number: int, function: Callable[..., T], text: bytes) -> T:
    """The value in an answer. Raises ChildError if the call has raised, Malformed if the text
    is no answer to this call."""
    try:
        answered, succeeded, value = _answer(function).validate_json(text)
    except ValidationError as refused:
        first = refused.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Malformed(f"{where}: {first['msg']}".removeprefix(": ")[:500]) from None
    if answered != number:
        raise Malformed(f"it is to call {answered}, not to call {number}")
    if not succeeded:
        raise ChildError(value)
    result: T = value
    return result


@cache
def _arguments(function: Callable[..., Any], count: int) -> TypeAdapter[tuple[Any, ...]]:
    hints = get_type_hints(function, include_extras=True)
    kinds = [hints[name] for name in inspect.signature(function).parameters]
    wanted: Any = tuple[tuple(kinds[:count])]  # type: ignore[misc]
    return TypeAdapter(wanted, config=NUMBERS)


@cache
def _answer(function: Callable[..., Any]) -> TypeAdapter[tuple[int, bool, Any]]:
    given: Any = get_type_hints(function, include_extras=True)["return"]
    wanted: Any = tuple[int, Literal[True], given] | tuple[int, Literal[False], str]
    return TypeAdapter(wanted, config=NUMBERS)
