"""Builder: a pool of long-lived child processes that build libraries; each imports TVM once."""

from __future__ import annotations

import queue
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import psutil
import structlog

from tuner.build import build_cache
from tuner.build.compile import BuildOrder, Built, assembly, build, ping
from tuner.build.linker import must_link
from tuner.errors import ChildFailed, ChildTimeout, MachineError
from tuner.process.child import Child
from tuner.process.confine import Confinement
from tuner.process.scratch import temporary_folder
from tuner.process.stopping import unended, wait_for

BUILD_SECONDS = 60.0
"""Default limit of a build, in seconds."""
NICENESS = 10
"""Niceness of the processes that build: they must not slow down measurements."""
MEMORY_SHARE, LEAST_MEMORY_BYTES = 0.25, 4 << 30
"""The memory limit of each process that builds: this share of the machine's memory, but at least
this many bytes."""

COMPILER = ("tvm.s_tir", "tuner.build.compile")
"""Modules that a process that builds imports when it starts."""

T = TypeVar("T")

log = structlog.get_logger()

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TVM_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
"""Environment of the processes that build. It hides the GPUs: a build needs none, and TVM creates a
context, which takes half a gigabyte of GPU memory, in each process that sees one."""


class Builder:
    """A pool of processes that builds up to ``workers`` libraries at once."""

    def __init__(
        self, workers: int, timeout: float = BUILD_SECONDS, cache: Path | None = None
    ) -> None:
        """Start no process yet: :meth:`warm_up` or the first order does.

        ``timeout`` is the limit of each build in seconds. ``cache`` is a folder of compiled
        libraries: a program found there is not compiled again, and a compiled one is added. Raises
        NoLinker if the host has no compiler that can link a library.
        """
        must_link()
        if cache is not None:
            build_cache.make_room(cache)
        self.workers = workers
        self._timeout, self._cache = timeout, cache
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="build")
        self._idle: queue.SimpleQueue[Child] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._building: dict[Child, Path] = {}
        self._submitted: dict[Future[Built], Path] = {}
        limits = confinement()
        self._children = [
            Child(ENVIRONMENT, NICENESS, limits, importing=COMPILER) for _ in range(workers)
        ]
        for child in self._children:
            self._idle.put(child)

    def warm_up(self) -> None:
        """Start the processes now, so that the first order does not wait for them to import TVM."""
        for _ in self._children:
            self._threads.submit(self._call, ping, (), self._timeout)

    def submit(self, order: BuildOrder) -> Future[Built]:
        """Queue a build, which starts as soon as a process is free.

        The future's result is a :class:`Built`. A failed build is not an exception, but a
        :class:`Built` with its reason.
        """
        future = self._threads.submit(self._build, order)
        self._submitted[future] = order.library
        future.add_done_callback(self._submitted.pop)
        return future

    @contextmanager
    def folder(self, prefix: str) -> Iterator[Path]:
        """Yield a temporary folder for libraries and remove it on exit.

        On exit, queued builds into the folder are cancelled and running ones are killed, because a
        build that still writes there would keep the folder from being removed. A linker may live
        for a moment longer than the process that started it. Files that it leaves are removed with
        the scratch folder.
        """
        with tempfile.TemporaryDirectory(
            prefix=prefix, dir=temporary_folder(), ignore_cleanup_errors=True
        ) as name:
            folder = Path(name)
            try:
                yield folder
            finally:
                self._drop(folder)

    def call(self, function: Callable[..., T], *arguments: Any, timeout: float) -> T:
        """Return ``function(*arguments)``, run in one of the processes after all earlier orders.

        ``timeout`` is in seconds. Raises what :meth:`Child.call` raises.
        """
        return wait_for(self._threads.submit(self._call, function, arguments, timeout))

    def with_source(self, built: Built) -> Built:
        """Return ``built`` with its source.

        A GPU's library has it already. For a CPU the source is the assembly, which takes LLVM a
        quarter of a build's time and is only needed for libraries that are stored. If making it
        fails, that is logged and ``built`` is returned unchanged, because a library without its
        source is still useful.
        """
        if built.source:
            return built
        try:
            source = self.call(assembly, built.order, timeout=self._timeout)
        except ChildFailed as error:
            log.warning("source_not_written", reason=str(error))
            return built
        return replace(built, source=source)

    def _drop(self, folder: Path) -> None:
        """Cancel or kill each build whose library lies in the folder, and wait until all have
        ended."""
        submitted = self._submitted.copy().items()
        inside = [build for build, library in submitted if library.is_relative_to(folder)]
        left = {build for build in inside if not build.cancel()}
        while left:  # a build that could not be cancelled may not have reached its process yet
            with self._lock:
                for child, library in self._building.items():
                    if library.is_relative_to(folder):
                        child.interrupt()
            left = unended(left)

    def _build(self, order: BuildOrder) -> Built:
        try:
            with self._child() as child:
                with self._lock:
                    self._building[child] = order.library
                try:
                    return child.call(build, order, self._cache, timeout=self._timeout)
                finally:
                    with self._lock:
                        del self._building[child]
        except ChildTimeout as error:
            return Built("build_timeout", order, error=str(error))
        except MachineError as error:
            return Built("machine_error", order, error=str(error))
        except ChildFailed as error:
            return Built("build_error", order, error=str(error))

    def _call(self, function: Callable[..., T], arguments: tuple[Any, ...], timeout: float) -> T:
        with self._child() as child:
            return child.call(function, *arguments, timeout=timeout)

    @contextmanager
    def _child(self) -> Iterator[Child]:
        child = self._idle.get()
        try:
            yield child
        finally:
            self._idle.put(child)

    def close(self) -> None:
        """Kill the builds that run and drop those that are queued."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for child in self._children:
            child.kill()
        self._threads.shutdown()
        for child in self._children:
            child.close()

    def __enter__(self) -> Builder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def confinement() -> Confinement:
    """Return the limits of a process that builds. It may start processes, because it runs the
    linker.
    """
    share = int(MEMORY_SHARE * psutil.virtual_memory().total)
    return Confinement(memory_bytes=max(share, LEAST_MEMORY_BYTES))
