"""Compiled kernels that are called like functions, and loading them from disk.

Neither TVM's compiler nor the service is needed.
"""

from __future__ import annotations

import ctypes
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
from typing import Any, NoReturn, Self

from tuner.device.cpu_facts import missing_instructions
from tuner.errors import BrokenArtifact, ForeignDevice, UntrustedSigner, WrongArgument
from tuner.library import addresses, bfloat16, openmp, tensors, trust, workspace
from tuner.library import manifest as manifests
from tuner.library.call import call
from tuner.library.manifest import Manifest
from tuner.library.runtime import load_runtime, take_threads

_NO_CONTEXT = nullcontext()
_NO_MORE_CHANGES = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
_modules: dict[str, tuple[Any, ctypes.CDLL]] = {}
"""Loaded libraries, as modules of tvm-ffi and as ctypes has them, by their SHA-256; they stay for
the life of the process."""


class Library:
    """The compiled kernel of one workload for one kind of device, which is called like a function.

    ``library(x, w)`` returns the output, or a tuple if there are several. The parameters have the
    names and the order of the workload's inputs.

    ``workload`` has the shapes and dtypes of the arguments, ``manifest`` everything else that is
    known of the library, ``path`` is its file. ``kind`` is ``cpu`` or ``cuda``. ``threads`` is the
    number of CPU threads that it runs on; None on a GPU.
    """

    def __new__(cls, path: Path, manifest: Manifest) -> Self:
        workload = manifest.workload
        names, outputs = (
            tuple(argument.name for argument in each)
            for each in (workload.inputs, workload.outputs)
        )
        made: Self = super().__new__(_subclass_for(names, outputs))
        return made

    def __init__(self, path: Path, manifest: Manifest) -> None:
        """Load the library at ``path``. The manifest's signature must have been checked: use
        :func:`load`.

        Raises BrokenArtifact if the bytes are not those that the manifest names, or are not a
        library; ForeignDevice if this CPU lacks instructions that it needs; MissingRuntime if TVM's
        runtime is not installed or can't be loaded.
        """
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
        self._module, file = _loaded(path, self.kind, manifest.library.sha256)
        if self.threads is not None and self.threads > 1:
            openmp.use_pytorchs(self._module, file, self.threads)
        self._main = self._module["main"]
        self._workspace = workspace.elements(self._module)
        self._run = self._main if self.kind == "cpu" else self._on_gpu
        if any(argument.dtype == bfloat16.NAME for argument in self.arguments):
            self._run_without_bfloat16, self._run = self._run, self._from_numpy
        if self._workspace:
            self._run_without_workspace, self._run = self._run, self._with_workspace

    def __call__(self, *given: Any, out: Any = None, cast: bool = False, **named: Any) -> Any:
        """Compute the output from the inputs, in the workload's order or by their names.

        The output is written to ``out`` and returned. Without ``out`` a new array is made by the
        library (NumPy, PyTorch) of the first input. If there are several outputs, a tuple of them
        is returned, and ``out`` is a tuple, too.

        All arrays must be contiguous, on the library's kind of device, and of the shapes and dtypes
        of their arguments. Inputs may be read-only. An output must not share memory with another
        argument. With ``cast`` an input of another real dtype is converted. Each call copies such
        an input, and the library of the array (NumPy, PyTorch) decides about rounding and overflow.
        The output keeps the workload's dtype.

        On CUDA the kernel is queued on PyTorch's current stream, and the call does not wait for it.
        PyTorch does not see the call and computes no gradient. While PyTorch records gradients, a
        tensor that requires one is refused. So is a call that torch.jit.trace, make_fx, torch.func
        or forward-mode differentiation would have to record or transform.

        Raises WrongShape, WrongDtype, WrongDevice, WrongLayout or another WrongArgument, whose
        message names the argument.
        """
        raise NotImplementedError  # each library's subclass has its own, with its arguments' names

    def of_tensors(self, *given: Any) -> Any:
        """Return the output of PyTorch tensors, as a call does, in half the time.

        The caller must know that the tensors are plain and need no gradient, and that nothing
        records or transforms the call: this is not checked. Raises what a call raises.
        """
        outputs = [given[0].new_empty(shape) for shape in self._shapes]
        try:
            self._on_tensors(*given, *outputs)
        except (TypeError, ValueError, RuntimeError, BufferError):
            return self(*given)  # its error says what is wrong with the tensors
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    @cached_property
    def _on_tensors(self) -> Callable[..., object]:
        """The function that runs the library on PyTorch's tensors. It is the kernel itself if its
        call needs nothing else."""
        if self._workspace:
            return self._with_workspace
        several = self.kind == "cuda" and _gpus(sys.modules["torch"]) > 1
        return self._on_gpu if several else self._main

    def by_address(self, gpu: int | None) -> Callable[..., object] | None:
        """Return the kernel as a function of its tensors' addresses; None if it has no such form.

        The tensors must be contiguous, in the arguments' order with the outputs last; nothing is
        checked. ``gpu`` is the number of the GPU that they are on. It must be the current one at
        each call, and PyTorch must be imported."""
        if gpu is not None:
            return addresses.on_gpu(self._module, self.arguments, self._workspace, gpu)
        return None if self._workspace else addresses.on_cpu(self._module, self.arguments)

    def _cast(self, *given: Any) -> tuple[Any, ...]:
        """Return the inputs, each converted to its argument's dtype if it has another real one."""
        return tuple(
            tensors.cast(array, argument.dtype)
            for array, argument in zip(given, self.workload.inputs, strict=True)
        )

    def _new_outputs(self, first: Any) -> Any:
        """Return new outputs, made by the array library of ``first``. Raises WrongArgument."""
        try:
            made = [tensors.empty_like(first, each.shape, each.dtype) for each in self._outputs]
        except WrongArgument:
            tensors.checked_view(self.arguments[0], first, self.kind)  # report its own faults first
            raise
        return made[0] if len(made) == 1 else tuple(made)

    def _unpack_outputs(self, out: Any) -> tuple[Any, ...]:
        """Return the outputs in ``out``, of a library with several. Raises WrongArgument."""
        if not isinstance(out, tuple | list) or len(out) != len(self._outputs):
            names = ", ".join(output.name for output in self._outputs)
            given = f"{len(out)} of them" if isinstance(out, tuple | list) else type(out).__name__
            raise WrongArgument(
                f"out must be a tuple of {len(self._outputs)} arrays, ({names}), but is {given}; "
                "without out, new ones are made"
            )
        return tuple(out)

    def _on_gpu(self, *arguments: Any) -> None:
        """Run the kernel on the GPU on which the first argument is."""
        torch = sys.modules.get("torch")
        if torch is not None and _gpus(torch) > 1:
            with _on_device_of(arguments[0]):
                self._main(*arguments)
        else:
            self._main(*arguments)

    def _from_numpy(self, *arguments: Any) -> None:
        """Run the kernel with NumPy's bfloat16 arrays as DLPack tensors, which NumPy can't make
        itself."""
        is_own = bfloat16.is_bfloat16
        self._run_without_bfloat16(
            *(tensors.shared_view(each) if is_own(each) else each for each in arguments)
        )

    def _with_workspace(self, *arguments: Any) -> None:
        """Run the kernel with a newly allocated workspace behind the arguments."""
        self._run_without_workspace(
            *arguments, tensors.new_workspace(arguments[0], self._workspace, self.kind)
        )

    def _checked_views(self, *arrays: Any) -> tuple[Any, ...]:
        """Return the arguments as the kernel takes them, after every check. Raises
        WrongArgument."""
        views = {
            argument.name: tensors.checked_view(argument, array, self.kind)
            for argument, array in zip(self.arguments, arrays, strict=True)
        }
        tensors.check_together(views, len(self._outputs))
        # A PyTorch tensor is passed on itself, because tvm-ffi takes the stream from it. It is
        # detached, because tvm-ffi refuses one that requires grad.
        return tuple(
            array.detach() if tensors.is_torch(array) else view
            for array, view in zip(arrays, views.values(), strict=True)
        )

    def __copy__(self) -> Self:
        return self  # a library never changes

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a library can't be pickled: load {self.path}, or its best, in each process"
        )

    def __repr__(self) -> str:
        return f"<Library {self.workload.key} for {self.kind} at {self.path}>"


def load(
    path: Path,
    manifest: Path | None = None,
    signature: Path | None = None,
    *,
    signers: Collection[str] | None = None,
) -> Library:
    """Load the library at ``path`` after checking its manifest's signature.

    ``manifest`` is by default the ``.json`` beside the library, ``signature`` the ``.sig`` beside
    the manifest. ``signers`` are the public keys that are trusted, as 64 hexadecimal digits each.
    By default these are the keys in TUNER_SIGNERS, or, if it is not set, this machine's own key and
    all that are pinned on it.

    Raises UntrustedSigner if there is no signature or it is by another key; BrokenArtifact if a
    file can't be read, is damaged or does not match the signature; ForeignDevice if this CPU lacks
    instructions that the library needs; MissingRuntime if TVM's runtime can't be loaded; NotAKey
    for a malformed key; BadSigningKey or UnusableFile if this machine's key or pins can't be read.
    """
    path = Path(path)
    manifest = path.with_suffix(".json") if manifest is None else Path(manifest)
    signature = manifest.with_suffix(".sig") if signature is None else Path(signature)
    given = trust.named_keys(signers)
    trusted = trust.this_machine() if given is None else trust.by_name(given)
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
    """Raise BrokenArtifact if the file can't be read, or if its bytes do not have that SHA-256."""
    _read(path, sha256)


def _read(path: Path, sha256: str) -> bytes:
    """Return the file's bytes. Raise BrokenArtifact if they do not have that SHA-256."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BrokenArtifact(f"{path} can't be read: {error}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise BrokenArtifact(f"{path} must hash to {sha256}, but hashes to {found}")
    return content


def _loaded(path: Path, kind: str, sha256: str) -> tuple[Any, ctypes.CDLL]:
    """Return the library as a module of tvm-ffi and as ctypes has it, loaded if it is not yet.

    The file is read and hashed each time. Raises BrokenArtifact, MissingRuntime.
    """
    load_runtime(kind)
    import tvm_ffi

    content = _read(path, sha256)
    if sha256 in _modules:
        return _modules[sha256]
    try:
        with _sealed(content) as copy:
            module = tvm_ffi.load_module(copy)
            module["main"]  # raises AttributeError if the file is not a library of ours
            file = ctypes.CDLL(copy)
    except (AttributeError, RuntimeError, OSError) as error:
        raise BrokenArtifact(f"{path} can't be loaded: {error}") from error
    return _modules.setdefault(sha256, (module, file))


@contextmanager
def _sealed(content: bytes) -> Iterator[str]:
    """Yield the path of a copy in memory that nobody can change.

    The file itself could be replaced between its check and its loading, or be written to once it is
    mapped.
    """
    handle = os.memfd_create("convtune", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with os.fdopen(os.dup(handle), "wb") as file:
            file.write(content)
        fcntl.fcntl(handle, fcntl.F_ADD_SEALS, _NO_MORE_CHANGES)
        # The link gives the copy a unique name with the ending that TVM wants. The loader does not
        # read a file again whose name it knows. The name in /proc is not unique: it has the
        # handle's number, which will be used for another file.
        with tempfile.TemporaryDirectory(prefix="convtune-") as folder:
            name = Path(folder) / "library.so"
            name.symlink_to(f"/proc/self/fd/{handle}")
            yield str(name)
    finally:
        os.close(handle)


@cache
def _subclass_for(names: tuple[str, ...], outputs: tuple[str, ...]) -> Any:
    """Return the subclass whose call takes inputs by these names and has these outputs."""
    own = call(names, outputs)
    own.__doc__ = Library.__call__.__doc__
    return type(Library.__name__, (Library,), {"__call__": own})


@cache
def _gpus(torch: ModuleType) -> int:
    """Return how many GPUs PyTorch sees."""
    return int(torch.cuda.device_count())


def _on_device_of(array: Any) -> AbstractContextManager[Any]:
    """Return a context in which the GPU of a PyTorch tensor is the current one.

    TVM sets the current device and does not reset it. The stream is set by tvm-ffi: it takes
    PyTorch's current stream if it is passed PyTorch tensors.
    """
    if tensors.is_torch(array):
        cuda = sys.modules["torch"].cuda
        if cuda.current_device() != array.device.index:
            device: AbstractContextManager[Any] = cuda.device(array.device.index)
            return device
    return _NO_CONTEXT
