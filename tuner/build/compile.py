"""Building one candidate: its schedule, compiled and linked into a shared library.

Runs in a process of the builder. The functions that compile import TVM.
"""

from __future__ import annotations

import importlib
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import templates
from templates.as_forward import AsForward, adapt
from templates.conv1d.workload import Conv1dWorkload
from tuner.build import build_cache, linker, parameters
from tuner.build.alignment import element_aligned
from tuner.build.linker import LIBRARIES, identity
from tuner.errors import NoLinker
from tuner.process.shortage import is_shortage


@dataclass(frozen=True)
class BuildOrder:
    """One library to build.

    ``program`` is ``module:name`` of a template's class if ``config`` is a configuration of its
    space. If ``config`` is None, it names a function of (workload, kind of target) that returns a
    schedule. ``target`` is the JSON of TVM's target, ``library`` the path to write to.
    """

    workload_key: str
    program: str
    config: dict[str, Any] | None
    target: dict[str, Any]
    library: Path


_OPENMP, _ADDRESSES, _ALIGNED = (
    Path(__file__).with_name(name) for name in ("openmp.c", "addresses.c", "aligned.c")
)
LINKED = {"llvm": (_OPENMP, _ADDRESSES), "cuda": (_ADDRESSES, _ALIGNED)}
"""C sources that are compiled and linked into each library, by the kind of its target."""
EMPTY = "tuner.measure.empty:empty"
"""The program that does nothing, as :attr:`BuildOrder.program` names it."""
EMPTY_WORKLOAD = Conv1dWorkload(M=1, N=1)
"""The workload of the empty program, which needs some arguments although it does not use them."""


@dataclass(frozen=True)
class Built:
    """The result of a build.

    ``status`` is ``ok``, ``schedule_error``, ``build_error``, ``build_timeout`` or
    ``machine_error``; ``error`` is the reason if it is not ``ok``. ``source`` is the CUDA source,
    "" for a CPU until :meth:`Builder.with_source` adds the assembly. ``workspace`` is in float32
    elements. ``seconds`` has the time of the steps ``schedule`` and ``build``; None if the build
    failed.
    """

    status: str
    order: BuildOrder
    error: str | None = None
    source: str = ""
    workspace: int = 0
    seconds: dict[str, float] | None = None


def ping() -> None:
    """Do nothing: a process that has answered this call has imported the compiler."""


def program_of(template: object) -> str:
    """Return ``module:name`` of a template's class, by which a process that builds imports it.

    A template that serves a gradient through its forward workload (:class:`AsForward`) is named by
    the template inside.
    """
    kind = type(template.template if isinstance(template, AsForward) else template)
    return f"{kind.__module__}:{kind.__qualname__}"


def program(order: BuildOrder) -> Any:
    """Return the template's class, or the function, that ``order.program`` names."""
    module, name = order.program.split(":")
    return getattr(importlib.import_module(module), name)


def schedule_of(order: BuildOrder) -> Any:
    """Return the TVM schedule of the order."""
    workload = templates.parse_key(order.workload_key)
    if order.config is None:
        return program(order)(workload, order.target["kind"])
    return adapt(program(order)(), workload).schedule(workload, order.config)


def build(order: BuildOrder, cache: Path | None = None) -> Built:
    """Schedule, compile and link the order's program.

    A failure is a :class:`Built` with its reason, not an exception. ``cache`` is a folder of
    compiled libraries: a program found there is not compiled again, and a compiled one is added.
    """
    start = time.perf_counter()
    try:
        schedule = schedule_of(order)
    except Exception as error:
        status = "machine_error" if isinstance(error, ImportError) else "schedule_error"
        return Built(status, order, error=_brief(error))
    middle = time.perf_counter()
    try:
        module = schedule.mod
        workspace = parameters.workspace(module, templates.parse_key(order.workload_key))
        source = compile_library(module, order.target, order.library, cache)
    except Exception as error:
        status = "machine_error" if _blames_machine(error) else "build_error"
        return Built(status, order, error=_brief(error))
    seconds = {"schedule": middle - start, "build": time.perf_counter() - middle}
    return Built("ok", order, source=source, workspace=workspace, seconds=seconds)


def _blames_machine(error: Exception) -> bool:
    """Return whether the machine, and not the program, made a build fail.

    It did if memory or file descriptors ran out, if the compiler or a module was missing, or if not
    even an empty library can be linked now.
    """
    if isinstance(error, (ImportError, NoLinker)) or is_shortage(str(error)):
        return True
    try:
        linker.must_still_link()
    except (NoLinker, OSError):
        return True
    return False


def compile_library(
    module: Any, target: dict[str, Any], library: Path, cache: Path | None = None
) -> str:
    """Compile a module and write its shared library. Return the CUDA source, or "" for a CPU.

    ``target`` is the JSON of TVM's target; ``cache`` is as for :func:`build`. Raises what TVM,
    NVRTC and the linker raise.
    """
    import tvm
    from tvm.support import cc

    from templates.kernels.launches.early_launch import begin_early

    aligned = element_aligned(module)
    if target["kind"] == "cuda":
        begin_early(aligned, target["arch"])  # before the cache's key is made of the module
    name = "" if cache is None else cache_key(aligned, target)
    if cache is not None and (found := build_cache.read(cache, name)) is not None:
        library.write_bytes(found.binary)
        return found.source
    if target["kind"] == "cuda":
        from tuner.build import cuda_compile

        cuda_compile.install(target["arch"])
    executable = tvm.compile(aligned, target=tvm.target.Target(target))
    options = [*_object_files(LINKED[target["kind"]], library.parent, cache), *LIBRARIES]
    executable.export_library(
        str(library), fcompile=cc.create_shared, cc=linker.linker(), options=options
    )
    source = str(executable.mod.imports[0].inspect_source()) if target["kind"] == "cuda" else ""
    if cache is not None:
        build_cache.write(cache, name, build_cache.Entry(library.read_bytes(), source))
    return source


def assembly(order: BuildOrder) -> str:
    """Return the assembly of the order's library for a CPU. It is scheduled and compiled anew."""
    import tvm

    module = element_aligned(schedule_of(order).mod)
    executable = tvm.compile(module, target=tvm.target.Target(order.target))
    return str(executable.mod.inspect_source("asm"))


def _object_files(sources: Sequence[Path], folder: Path, cache: Path | None) -> list[str]:
    """Return the paths of the sources as object files in ``folder``.

    Compiling a source takes longer than linking a library. So each source is compiled once for all
    libraries in the folder, or once for all builds that share the folder ``cache``.
    """
    made = [folder / source.with_suffix(".o").name for source in sources]
    for source, path in zip(sources, made, strict=True):
        if path.exists():
            continue
        name = build_cache.key(identity(), source.read_text())
        found = None if cache is None else build_cache.read(cache, name)
        with tempfile.TemporaryDirectory(dir=folder) as own:  # other processes may compile it, too
            compiled = Path(own) / path.name
            if found is not None:
                compiled.write_bytes(found.binary)
            else:
                linker.run(linker.linker(), "-c", "-O2", "-fPIC", str(source), "-o", str(compiled))
                if cache is not None:
                    build_cache.write(cache, name, build_cache.Entry(compiled.read_bytes(), ""))
            compiled.replace(path)
    return [str(path) for path in made]


def cache_key(module: Any, target: dict[str, Any]) -> str:
    """Return the key of a library in the folder ``cache``: a hash of all that its bytes depend on.

    These are the program, the target, and the versions and options of the compilers and the linker.
    """
    import tvm
    import tvm_ffi

    tools = [tvm.__version__, tvm_ffi.__version__, identity()]
    tools += [source.read_text() for source in LINKED[target["kind"]]]
    if target["kind"] == "cuda":
        from tuner.build import cuda_compile

        tools.append(cuda_compile.identity())
    graph = tvm_ffi.serialization.to_json_graph_str(module)
    return build_cache.key(graph, json.dumps(target, sort_keys=True), *tools)


def _brief(error: Exception, limit: int = 2000) -> str:
    """Return an error's type and message, with the middle left out if they exceed ``limit``."""
    text = f"{type(error).__name__}: {error}"
    return text if len(text) <= limit else f"{text[: limit // 2]} … {text[-limit // 2 :]}"
