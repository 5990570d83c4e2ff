"""One configuration's program as a shared library. Runs in a builder's child; imports TVM."""

from __future__ import annotations

import importlib
import json
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import templates
from templates.as_forward import AsForward, adapt
from templates.conv1d.workload import Conv1dWorkload
from tuner.build import kept, parameters
from tuner.build.alignment import element_aligned
from tuner.build.linker import LIBRARIES, identity, linker


@dataclass(frozen=True)
class BuildOrder:
    """What to build. ``program`` is ``module:name`` of a template's class, or of a function of
    (workload, kind) that gives a schedule and needs no configuration."""

    workload_key: str
    program: str
    config: dict[str, Any] | None
    target: dict[str, Any]
    library: Path


LINKED = tuple(Path(__file__).with_name(name) for name in ("openmp.c", "addresses.c"))
"""Sources that are compiled into each library for a CPU."""
EMPTY = "tuner.measure.empty:empty"
EMPTY_WORKLOAD = Conv1dWorkload(M=1, N=1)


@dataclass(frozen=True)
class Built:
    """The result. ``status`` is ``ok``, ``schedule_error``, ``build_error`` or
    ``build_timeout``; a GPU's source, elements of the workspace, seconds of each step."""

    status: str
    order: BuildOrder
    error: str | None = None
    source: str = ""
    workspace: int = 0
    seconds: dict[str, float] | None = None


def ready() -> None:
    """Does nothing: a process that can call it has imported the compiler."""


def program_of(template: object) -> str:
    """The import path by which a child finds a template, or what else makes programs."""
    kind = type(template.template if isinstance(template, AsForward) else template)
    return f"{kind.__module__}:{kind.__qualname__}"


def program(order: BuildOrder) -> Any:
    """The template or function that the order's ``program`` names."""
    module, name = order.program.split(":")
    return getattr(importlib.import_module(module), name)


def scheduled(order: BuildOrder) -> Any:
    """The order's schedule."""
    workload = templates.parse_key(order.workload_key)
    if order.config is None:
        return program(order)(workload, order.target["kind"])
    return adapt(program(order)(), workload).schedule(workload, order.config)


def build(order: BuildOrder, keep: Path | None = None) -> Built:
    """Schedule, compile and link. A failure is a result with its reason, not an exception. What
    lies in the folder ``keep`` is not compiled again, and what is compiled is put there."""
    start = time.perf_counter()
    try:
        schedule = scheduled(order)
    except Exception as error:
        return Built("schedule_error", order, error=_brief(error))
    middle = time.perf_counter()
    try:
        module = schedule.mod
        workspace = parameters.workspace(module, templates.parse_key(order.workload_key))
        source = compile_library(module, order.target, order.library, keep)
    except Exception as error:
        return Built("build_error", order, error=_brief(error))
    seconds = {"schedule": middle - start, "build": time.perf_counter() - middle}
    return Built("ok", order, source=source, workspace=workspace, seconds=seconds)


def compile_library(
    module: Any, target: dict[str, Any], library: Path, keep: Path | None = None
) -> str:
    """Write the module's shared library. Returns the CUDA source, nothing of a CPU."""
    import tvm
    from tvm.support import cc

    aligned = element_aligned(module)
    name = "" if keep is None else name_of(aligned, target)
    if keep is not None and (found := kept.read(keep, name)) is not None:
        library.write_bytes(found.binary)
        return found.source
    if target["kind"] == "cuda":
        from tuner.build import cuda_compile

        cuda_compile.install(target["arch"])
    executable = tvm.compile(aligned, target=tvm.target.Target(target))
    linked = [] if target["kind"] == "cuda" else _linked(library.parent, keep)
    options = [*linked, *LIBRARIES]
    executable.export_library(str(library), fcompile=cc.create_shared, cc=linker(), options=options)
    source = str(executable.mod.imports[0].inspect_source()) if target["kind"] == "cuda" else ""
    if keep is not None:
        kept.write(keep, name, kept.Entry(library.read_bytes(), source))
    return source


def assembly(order: BuildOrder) -> str:
    """Of a library for a CPU."""
    import tvm

    module = element_aligned(scheduled(order).mod)
    executable = tvm.compile(module, target=tvm.target.Target(order.target))
    return str(executable.mod.inspect_source("asm"))


def _linked(folder: Path, keep: Path | None) -> list[str]:
    """LINKED as object files in the folder. Each is compiled once for all libraries there, or for
    all that share the folder ``keep``, as it takes longer than to link one of them."""
    made = [folder / source.with_suffix(".o").name for source in LINKED]
    for source, path in zip(LINKED, made, strict=True):
        if path.exists():
            continue
        name = kept.key(identity(), source.read_text())
        found = None if keep is None else kept.read(keep, name)
        with tempfile.TemporaryDirectory(dir=folder) as own:  # others may be at it
            compiled = Path(own) / path.name
            if found is not None:
                compiled.write_bytes(found.binary)
            else:
                command = [linker(), "-c", "-O2", "-fPIC", str(source), "-o", str(compiled)]
                subprocess.run(command, check=True, capture_output=True)
                if keep is not None:
                    kept.write(keep, name, kept.Entry(compiled.read_bytes(), ""))
            compiled.replace(path)
    return [str(path) for path in made]


def name_of(module: Any, target: dict[str, Any]) -> str:
    """The key of all that a library comes from: program, target, what compiles and links it."""
    import tvm
    import tvm_ffi

    tools = [tvm.__version__, tvm_ffi.__version__, identity()]
    tools += [source.read_text() for source in LINKED]
    if target["kind"] == "cuda":
        from tuner.build import cuda_compile

        tools.append(cuda_compile.identity())
    graph = tvm_ffi.serialization.to_json_graph_str(module)
    return kept.key(graph, json.dumps(target, sort_keys=True), *tools)


def _brief(error: Exception, limit: int = 2000) -> str:
    text = f"{type(error).__name__}: {error}"
    return text if len(text) <= limit else f"{text[: limit // 2]} … {text[-limit // 2 :]}"
