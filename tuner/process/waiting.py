"""A long call in a child, which its job can end."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any, TypeVar

from tuner.errors import ChildFailed
from tuner.process.child import Child

CHECK_SECONDS = 1.0

T = TypeVar("T")


def waited(
    child: Child,
    function: Callable[..., T],
    *arguments: Any,
    timeout: float,
    check: Callable[[], None],
) -> T:
    """As :meth:`Child.call`. ``check()`` is called again and again meanwhile; where it raises, the
    child is killed for good."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(partial(child.call, function, *arguments, timeout=timeout))
        try:
            while wait([future], CHECK_SECONDS).not_done:
                check()
            return future.result()
        except ChildFailed:
            raise
        except BaseException:
            child.kill()
            raise
