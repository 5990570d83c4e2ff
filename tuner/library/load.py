"""A compiled library as something to call. Neither TVM's compiler nor the service is needed."""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from tuner.device.cpu_facts import missing_instructions
from tuner.errors import BrokenArtifact, ForeignDevice, UntrustedSigner, WrongArgument
from tuner.library import addresses, bfloat16, openmp, tensors, trust, workspace
from tuner.library import manifest as manifests
from tuner.library.call import call
from tuner.library.manifest import Manifest
from tuner.library.runtime import load_runtime, take_threads

_AS_IT_IS = nullcontext()
_NO_MORE_CHANGES = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
_modules: dict[str, Any] = {}
"""By a library's sha256, what was loaded: it stays for as long as the process."""


class Library:
    """The kernel of one workload on one kind of device: ``library(x, w)`` gives the output, or a
    tuple of several.

    ``workload`` says the arguments, ``manifest`` what else is known of it, ``path`` where it is,
    ``threads`` how many of the CPU it runs on (None on a GPU).
    """

    def __new__(cls, path: Path, manifest: Manifest) -> Self:
        workload = manifest.workload
        names, outputs = (
            tuple(argument.name for argument in each) for each in (workload.given, workload.outputs)
        )
        made: Self = super().__new__(_taking(names, outputs))
        return made

    def __init__(self, path: Path, manifest: Manifest) -> None:
        """With a manifest whose signature was checked: :func:`load` does that.

        Raises BrokenArtifact if the bytes are not those that the manifest names, or are no
        library; ForeignDevice, MissingRuntime."""
        self.path = path
        self.manifest = manifest.all
        self.workload = manifest.workload
        self.kind: str = manifest.device.kind
        limits = manifest.device.limits
        missing = missing_instructions(limits.vector_bytes) if self.kind == "cpu" else None
        if missing:
            raise ForeignDevice(
                f"{path} was compiled for {manifest.device.name}, with {missing} "
                "instructions that this CPU lacks; ask for the best of this machine's device, "
                "or tune the workload here"
            )
        self.threads = manifest.threads
        if self.threads is not None and self.threads > 1:
            take_threads(self.threads)
        self.arguments = self.workload.arguments
        self._bytes = tuple(argument.bytes for argument in self.arguments)
        self._outputs = self.workload.outputs
        self._shapes = tuple(output.shape for output in self._outputs)
        self._module = _module(path, self.kind, manifest.library.sha256)
        if self.threads is not None and self.threads > 1:
            openmp.use_pytorchs(self._module, self.threads)
        self._main = self._module["main"]
        self._workspace = workspace.elements(self._module)
        self._run = self._main if self.kind == "cpu" else self._on_gpu
        if any(argument.dtype == bfloat16.NAME for argument in self.arguments):
            self._taken, self._run = self._run, self._from_numpy
        if self._workspace:
            self._queued, self._run = self._run, self._with_workspace

    def __call__(self, *given: Any, out: Any = None, cast: bool = False, **named: Any) -> Any:
        """The output of what is given, in the order of the workload's arguments or by their names:
        ``out``, or a new array of the first one's own library. If there are several outputs, it is
        a tuple of them, and so is ``out``.

        All are contiguous and of their arguments' dtypes and shapes, on the library's kind of
        device; what is given may be read-only. With ``cast``, what has another real dtype is
        converted: one copy of it at every call, with the rounding and the overflow of its own
        library's conversion. The output stays of the workload's dtype.

        On CUDA the kernel is queued on PyTorch's current stream; the call does not wait for it.
        PyTorch does not see the call: there is no gradient, and what records or transforms it is
        refused. Raises WrongShape, WrongDtype, WrongDevice, WrongLayout or another WrongArgument,
        which name the argument.
        """
        raise NotImplementedError  # each library has its own, with its arguments' names

    def of_tensors(self, *given: Any) -> Any:
        """What a call gives, in half the time, for PyTorch's tensors of which the caller knows that
        they are plain, need no grad, and that nothing records or transforms the call."""
        outputs = [given[0].new_empty(shape) for shape in self._shapes]
        try:
            self._on_tensors(*given, *outputs)
        except (TypeError, ValueError, RuntimeError, BufferError):
            return self(*given)  # says what is wrong, if it is the tensors
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    @cached_property
    def _on_tensors(self) -> Callable[..., object]:
        """What runs it on PyTorch's tensors: the kernel itself, if nothing has to be added."""
        if self._workspace:
            return self._with_workspace
        several = self.kind == "cuda" and _gpus(sys.modules["torch"]) > 1
        return self._on_gpu if several else self._main

    def by_address(self, gpu: int | None) -> Callable[..., object] | None:
        """Return the kernel as a function of its tensors' addresses; None if it has no such form.

        The tensors are contiguous, in the arguments' order with the outputs last, and nothing is
        checked. ``gpu`` is the number of the GPU that they are on, which must be current at each
        call; PyTorch must be imported then."""
        if gpu is not None:
            return addresses.on_gpu(self._module, self.arguments, self._workspace, gpu)
        return None if self._workspace else addresses.on_cpu(self._module, self.arguments)

    def _cast(self, *given: Any) -> tuple[Any, ...]:
        return tuple(
            tensors.cast(array, argument.dtype)
            for array, argument in zip(given, self.workload.given, strict=True)
        )

    def _fresh(self, first: Any) -> Any:
        try:
            made = [tensors.empty_like(first, each.shape, each.dtype) for each in self._outputs]
        except WrongArgument:
            tensors.viewed(self.arguments[0], first, self.kind)  # its faults first
            raise
        return made[0] if len(made) == 1 else tuple(made)

    def _unpacked(self, out: Any) -> tuple[Any, ...]:
        """Of several outputs, those that are given. Raises WrongArgument."""
        if not isinstance(out, tuple | list) or len(out) != len(self._outputs):
            names = ", ".join(output.name for output in self._outputs)
            given = f"{len(out)} of them" if isinstance(out, tuple | list) else type(out).__name__
            raise WrongArgument(
                f"out must be a tuple of {len(self._outputs)} arrays, ({names}), but is {given}; "
                "without it new ones are made"
            )
        return tuple(out)

    def _on_gpu(self, *arguments: Any) -> None:
        torch = sys.modules.get("torch")
        if torch is not None and _gpus(torch) > 1:
            with _on_device_of(arguments[0]):
                self._main(*arguments)
        else:
            self._main(*arguments)

    def _from_numpy(self, *arguments: Any) -> None:
        is_own = bfloat16.is_bfloat16
        self._taken(*(tensors.shared(each) if is_own(each) else each for each in arguments))

    def _with_workspace(self, *arguments: Any) -> None:
        self._queued(*arguments, tensors.scratch(arguments[0], self._workspace, self.kind))

    def _viewed(self, *arrays: Any) -> tuple[Any, ...]:
        views = {
            argument.name: tensors.viewed(argument, array, self.kind)
            for argument, array in zip(self.arguments, arrays, strict=True)
        }
        tensors.check_together(views, len(self._outputs))
        # a tensor of PyTorch's goes as it is, for its stream's sake; its grad would not let it
        return tuple(
            array.detach() if tensors.is_torch(array) else view
            for array, view in zip(arrays, views.values(), strict=True)
        )

    def __deepcopy__(self, _: object) -> Self:
        return self  # nothing of it changes

    def __repr__(self) -> str:
        return f"<Library {self.workload.key} for {self.kind} at {self.path}>"


def load(
    path: Path,
    manifest: Path | None = None,
    signature: Path | None = None,
    *,
    signers: Collection[str] | None = None,
) -> Library:
    """The library at ``path`` with the manifest and the signature there, by default the ``.json``
    beside it and the ``.sig`` beside that. ``signers`` are the public keys that are trusted, by
    default those of TUNER_SIGNERS, or else this machine's own and all that are pinned on it.

    Raises UntrustedSigner, BrokenArtifact, ForeignDevice, MissingRuntime."""
    path = Path(path)
    manifest = path.with_suffix(".json") if manifest is None else Path(manifest)
    signature = manifest.with_suffix(".sig") if signature is None else Path(signature)
    given = trust.named(signers)
    trusted = trust.here() if given is None else trust.by_name(given)
    try:
        described = manifest.read_bytes()
    except OSError as error:
        raise BrokenArtifact(f"{path} has no manifest at {manifest}: {error}") from error
    try:
        signed = signature.read_bytes()
    except OSError as error:
        raise UntrustedSigner(
            f"{path} has no signature at {signature} ({error}); fetch it with its signature, "
            "or tune the workload again"
        ) from error
    return Library(path, manifests.verified(described, signed, lambda _: trusted, str(path)))


def check_sha256(path: Path, sha256: str) -> None:
    """Raises BrokenArtifact if the file can't be read or its bytes do not hash to that."""
    _read(path, sha256)


def _read(path: Path, sha256: str) -> bytes:
    """The bytes that hash to that. Raises BrokenArtifact."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BrokenArtifact(f"{path} can't be read: {error}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise BrokenArtifact(f"{path} must hash to {sha256}, but hashes to {found}")
    return content


def _module(path: Path, kind: str, sha256: str) -> Any:
    load_runtime(kind)
    import tvm_ffi

    content = _read(path, sha256)
    if sha256 in _modules:
        return _modules[sha256]
    try:
        with _sealed(content) as copy:
            module = tvm_ffi.load_module(copy)
            module["main"]  # or it is none of ours
    except (AttributeError, RuntimeError, OSError) as error:
        raise BrokenArtifact(f"{path} can't be loaded: {error}") from error
    return _modules.setdefault(sha256, module)


@contextmanager
def _sealed(content: bytes) -> Iterator[str]:
    """The path of a copy in memory that nobody can change: a file could be another between its
    check and its loading, or, once it is mapped, be written to."""
    handle = os.memfd_create("convtune", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with os.fdopen(os.dup(handle), "wb") as file:
            file.write(content)
        fcntl.fcntl(handle, fcntl.F_ADD_SEALS, _NO_MORE_CHANGES)
        # a name of its own, ending as TVM wants it: what the loader has under a name it does not
        # read again, and the handle's number will be another's
        with tempfile.TemporaryDirectory(prefix="convtune-") as folder:
            name = Path(folder) / "library.so"
            name.symlink_to(f"/proc/self/fd/{handle}")
            yield str(name)
    finally:
        os.close(handle)


@cache
def _taking(names: tuple[str, ...], outputs: tuple[str, ...]) -> Any:
    """The class whose call takes arrays by these names, and has these outputs."""
    own = call(names, outputs)
    own.__doc__ = Library.__call__.__doc__
    return type(Library.__name__, (Library,), {"__call__": own})


@cache
def _gpus(torch: ModuleType) -> int:
    return int(torch.cuda.device_count())


def _on_device_of(array: Any) -> AbstractContextManager[Any]:
    """With a PyTorch tensor's device as the current one: TVM sets the device and leaves it. The
    stream is tvm-ffi's to set: PyTorch's current one where tensors of PyTorch's come."""
    if tensors.is_torch(array):
        cuda = sys.modules["torch"].cuda
        if cuda.current_device() != array.device.index:
            device: AbstractContextManager[Any] = cuda.device(array.device.index)
            return device
    return _AS_IT_IS
