"""Choice of the bests that go into a package as kernels, and the reasons why others do not."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import templates
from templates.workload import Workload
from tuner.client.answers import Best
from tuner.client.local import Local
from tuner.client.pytorch_comparison import reason_to_use_pytorch
from tuner.client.source import Files
from tuner.errors import NotTuned
from tuner.library.runtime import LIBRARIES
from tuner.package.calls import call_of
from tuner.package.instructions import instructions, machine
from tuner.package.runtime import library
from tuner.terminal.options import as_options


@dataclass(frozen=True)
class Packed:
    """A kernel of a package: its row in the table of kernels, and the contents of its files."""

    row: dict[str, Any]
    library: bytes
    manifest: bytes
    signature: bytes

    @property
    def kind(self) -> str:
        return str(self.row["kind"])

    @property
    def arch(self) -> str:
        return str(self.row["arch"])


@dataclass
class Contents:
    """The kernels of a package, and the bests that were left out of it."""

    kernels: list[Packed] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """A line for each best that was left out: its shape, its device and the reason."""

    @property
    def kinds(self) -> list[str]:
        """The kinds of device that the kernels run on, ``cpu`` first."""
        return sorted({kernel.kind for kernel in self.kernels}, key=("cpu", "cuda").index)


def chosen(
    source: Local,
    workloads: Sequence[Workload] | None,
    operator: str | None = None,
    target: str | None = None,
    device: str | None = None,
) -> list[Best]:
    """Return the bests of the workloads on each device, or those of all workloads if ``workloads``
    is None. ``operator``, ``target`` (a kind of device) and ``device`` leave out the bests of
    others.

    Raise NotTuned if some of the given workloads have no best. The error names them."""
    if workloads is None:
        names = [operator] if operator else [each.name for each in templates.operators()]
        found = [source.bests(name, target=target, device=device) for name in names]
        return [best for several in found for best in several]
    wanted = [each for each in workloads if operator in (None, each.operator)]
    by_workload = [
        (each, source.bests(each.operator, each.model_dump(), target=target, device=device))
        for each in wanted
    ]
    missing = [each for each, found in by_workload if not found]
    if missing:
        shapes = "; ".join(f"{each.operator} {as_options(each)}" for each in missing)
        on = device or target
        raise NotTuned(
            None,
            f"{len(missing)} of {len(wanted)} workloads are not tuned{f' on {on}' if on else ''}: "
            f"{shapes}; tune them (tuner model tune, tuner tune), or give a list without them: "
            "--file",
        )
    return [best for _, found in by_workload for best in found]


def contents(source: Local, bests: Iterable[Best]) -> Contents:
    """Return the kernels of the bests, whose signatures and hashes are checked as before a load.

    If several bests serve the same call on the same device, the best with the smallest max_error is
    taken. Bests are left out if PyTorch was faster, if no function of the package would call them,
    or if their library is for another kind of processor than this host's. Raise UntrustedSigner,
    BrokenArtifact, NoLibrary, or MissingRuntime if TVM's runtime can't be read here."""
    made = Contents()
    here = machine(library(LIBRARIES["cpu"][0]))
    taken = set()
    for best in sorted(bests, key=lambda each: each.workload["max_error"]):
        workload = templates.operator(best.operator).workload.model_validate(best.workload)
        call, reason = call_of(workload), reason_to_use_pytorch(best)
        place = (str(call), best.device.kind, best.device.name, best.device.arch)
        if call is None:
            reason = "the package has no function that would call it"
        elif reason is None and place in taken:
            reason = "the package has a kernel with a smaller max_error for the same call"
        elif reason is None:
            packed = _packed(best, call, source.files(best))
            if machine(packed.library) == here:
                taken.add(place)
                made.kernels.append(packed)
                continue
            reason = "it was built on another kind of processor than this host has"
        made.left_out.append(
            f"{workload.operator} {as_options(workload)} on {best.device.name}: {reason}"
        )
    return made


def _packed(best: Best, call: dict[str, Any], files: Files) -> Packed:
    library = files.library.read_bytes()
    on_cpu = best.device.kind == "cpu"
    target = files.manifest.all["target"]
    row = {
        "file": f"{best.operator}-{hashlib.sha256(files.described).hexdigest()[:12]}",
        "call": call,
        "kind": best.device.kind,
        "device": best.device.name,
        "arch": best.device.arch,
        "instructions": instructions(library, target) if on_cpu else None,
        "threads": best.threads,
        "error": best.workload["max_error"],
        "time_us": best.time_us,
    }
    return Packed(row, library, files.described, files.signature)
