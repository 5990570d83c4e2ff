"""A compiled library as something to call. Neither TVM's compiler nor the service is needed."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import templates
from templates.errors import TemplateError
from tuner import tensors
from tuner.cpu_facts import missing_instructions
from tuner.errors import BrokenArtifact, ForeignDevice
from tuner.runtime import KINDS, load_runtime

MANIFEST_VERSION = 1


class Library:
    """The kernel of one workload on one kind of device: ``library(x, w)`` gives the output.

    ``workload`` says the shapes, ``manifest`` what else is known of it, ``path`` where it is.
    """

    def __init__(self, path: Path, manifest: Mapping[str, Any]) -> None:
        """Raises BrokenArtifact where the bytes are not those that the manifest names, or are no
        library; ForeignDevice, MissingRuntime."""
        self.path = path
        try:
            self.manifest = dict(manifest)
            version = manifest["manifest_version"]
            sha256: str = manifest["library"]["sha256"]
            self.workload = templates.parse_key(manifest["workload_key"])
            self.kind: str = manifest["device"]["kind"]
            vector_bytes: int = manifest["device"]["limits"]["vector_bytes"]
        except (LookupError, TypeError, AttributeError, ValueError, TemplateError) as error:
            raise BrokenArtifact(f"the manifest of {path} is damaged: {error!r}") from error
        if version != MANIFEST_VERSION or self.kind not in KINDS:
            raise BrokenArtifact(
                f"the manifest of {path} is of version {version} for {self.kind}, and this program "
                f"reads version {MANIFEST_VERSION}; install the convtune that wrote it"
            )
        check_sha256(path, sha256)  # before the loader sees them: damaged ones may end the process
        missing = missing_instructions(vector_bytes) if self.kind == "cpu" else None
        if missing:
            raise ForeignDevice(
                f"{path} was compiled for {manifest['device'].get('name')}, with {missing} "
                "instructions that this CPU lacks; ask for the best of this machine's device, "
                "or tune the workload here"
            )
        self._main = _main(path, self.kind)

    def __call__(self, x: Any, w: Any, out: Any = None) -> Any:
        """The output for input ``x`` and weight ``w``: ``out``, or a new array of x's own library.

        All are contiguous and of the workload's dtype and shapes, on the library's kind of device.
        On CUDA the kernel is queued on PyTorch's current stream; the call does not wait for it.
        Raises WrongShape, WrongDtype, WrongDevice or WrongLayout, which name the argument.
        """
        work, kind = self.workload, self.kind
        first = tensors.viewed("input", x, work.input_shape, work.dtype, kind)
        second = tensors.viewed("weight", w, work.weight_shape, work.dtype, kind)
        if out is None:
            out = tensors.empty_like(x, work.output_shape, work.dtype)
        last = tensors.viewed("output", out, work.output_shape, work.dtype, kind)
        tensors.check_together({"input": first, "weight": second, "output": last})
        if kind == "cpu":
            self._main(first, second, last)
        else:
            with _on_stream_of(x, first.device):
                self._main(first, second, last)
        return out

    def __repr__(self) -> str:
        return f"<Library {self.workload.key} for {self.kind} at {self.path}>"


def load(path: Path, manifest: Path | None = None) -> Library:
    """The library at ``path`` with the manifest there, by default the ``.json`` beside it.

    Raises BrokenArtifact, ForeignDevice, MissingRuntime."""
    path = Path(path)
    manifest = path.with_suffix(".json") if manifest is None else Path(manifest)
    try:
        described = json.loads(manifest.read_bytes())
    except (OSError, ValueError) as error:
        raise BrokenArtifact(f"{path} has no manifest at {manifest}: {error}") from error
    return Library(path, described)


def check_sha256(path: Path, sha256: str) -> None:
    """Raises BrokenArtifact where the file can't be read or its bytes do not hash to that."""
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise BrokenArtifact(f"{path} can't be read: {error}") from error
    if found != sha256:
        raise BrokenArtifact(f"{path} must hash to {sha256}, but hashes to {found}")


def _main(path: Path, kind: str) -> Any:
    load_runtime(kind)
    import tvm_ffi

    try:
        return tvm_ffi.load_module(str(path.resolve()))["main"]
    except (AttributeError, RuntimeError) as error:
        raise BrokenArtifact(f"{path} can't be loaded: {error}") from error


def _on_stream_of(array: Any, device: Any) -> ExitStack:
    """Where the array's library would queue its own kernel now: for a PyTorch tensor, on PyTorch's
    current stream of that device; for others, on the default stream."""
    import tvm_ffi

    stack = ExitStack()
    if tensors.is_torch(array):
        torch = sys.modules["torch"]
        stack.enter_context(torch.cuda.device(device.index))  # TVM sets the device and leaves it
        stream = torch.cuda.current_stream(device.index).cuda_stream
        stack.enter_context(tvm_ffi.use_raw_stream(device, stream))
    return stack
