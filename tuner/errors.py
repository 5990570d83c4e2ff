"""Every error that `tuner` raises. The docstring of a class tells its reader what to do about it.

TunerError
├── BadOrder             a field of an order, or of a shape, has a value that is not allowed
│   └── UnknownStrategy  no search strategy has that name
├── UnknownDocument      the operator's ladder has no rungs of that document
├── NoDevice             the target asked for is not on this machine
├── NoTracker            no RPC tracker answers at the address that was given
├── NoServer             the RPC tracker has no server for a worker
├── ForeignServer        an RPC server has another device or other versions
├── NoCompiler           a shape was to be tuned here, and TVM's compiler is not installed
├── NoLinker             no C++ compiler is here to link a library with
├── NoDiskSpace          a job's temporary files need more disk space than is free or allowed
├── NotReady             this machine lacks what each job needs, such as disk space or a compiler
├── NothingWorked        no configuration passed the build, the check and the timing
├── UnusableFile         a file or folder can't be read or written, or has unexpected contents
├── UnusableModel        a model that was named can't be built or called, or has nothing to tune
├── BrokenArtifact       a library's bytes do not match their name, or it can't be loaded
├── UntrustedSigner      a library is not signed, or its signer is not trusted here
├── BadSigningKey        this machine's signing key can't be used
├── NotAKey              a value that was given as a trusted public key is no key
├── MissingRuntime       a package that is needed to run libraries is not installed
├── ForeignDevice        a library was compiled for instructions that this CPU lacks
├── WrongArgument        an array given to a library does not fit it
│   ├── WrongShape
│   ├── WrongDtype
│   ├── WrongDevice
│   └── WrongLayout      strided, read-only, or an output in the memory of an input
├── ServiceError         the service refused a request
│   ├── NotTuned         nothing has been tuned for the shape yet
│   └── ServiceUnreachable
├── JobFailed            a job ended without a winner
├── StillRunning         a job did not end before the timeout
├── ModelFailed          a model ended with a job that has no winner
├── ModelStillRunning    a model did not end before the timeout
├── NoLibrary            a nearest match lends its configuration and has no library for the shape
└── ChildFailed
    ├── ChildError       the call raised an exception in the child process
    ├── ChildCrashed     the child died during the call, or was killed for an invalid answer
    │   └── MachineError  the machine lacked something that the call needs, such as memory
    └── ChildTimeout     the call outlasted its deadline and the child was killed
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pathlib import Path

    from db.contract.model import ModelShown
    from tuner.client.answers import Job


class TunerError(Exception):
    """Base of every error that `tuner` raises."""


class BadOrder(TunerError):
    """Correct the field that the message names. ``field`` has its name too, ``why`` the reason."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field, self.why = field, why


class UnknownStrategy(BadOrder):
    """Ask for one of the strategies that the message names."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(
            "search", f"unknown search strategy {name!r}; known are: {', '.join(sorted(known))}"
        )
        self.name = name


class UnknownDocument(TunerError):
    """Ask for one of the documents that the message names."""

    def __init__(self, operator: str, document: str, known: Iterable[str]) -> None:
        super().__init__(
            f"{operator} has no rungs of document {document!r}; known are: {', '.join(known)}"
        )


class NoDevice(TunerError):
    """Install what the message names, or take --target cpu."""

    def __init__(self, missing: str) -> None:
        super().__init__(f"target cuda: {missing}; use --target cpu, or run on a GPU host")


class NoTracker(TunerError):
    """Start the tracker, or correct the address that the message names."""

    def __init__(self, tracker: tuple[str, int], why: str) -> None:
        host, port = tracker
        super().__init__(
            f"no RPC tracker answers at {host}:{port} ({why}); start it first: "
            f"python -m tvm.exec.rpc_tracker --host {host} --port {port} --port-end {port + 1}"
        )


class NoServer(TunerError):
    """Start the tracker, or a server under the key that the message names."""

    def __init__(self, tracker: tuple[str, int], key: str, why: str) -> None:
        host, port = tracker
        super().__init__(
            f"the tracker {host}:{port} gives no RPC server with the key {key!r} ({why}); start "
            f"one with `tuner rpc-server --tracker {host}:{port} --key {key}`, on the host of the "
            "device"
        )


class ForeignServer(TunerError):
    """Give servers of other devices another key; install the same convtune on all hosts."""


class NoCompiler(TunerError):
    """Install convtune with its dependencies, or have a service tune the shape."""

    def __init__(self, missing: str) -> None:
        super().__init__(
            f"tuning here needs TVM's compiler, but {missing}; install convtune with all its "
            "dependencies, or submit the shape to a service"
        )


class NoLinker(TunerError):
    """Install a C++ compiler (g++ or clang++) and its linker, or name one in CXX."""

    def __init__(self, compiler: str = "", said: str = "") -> None:
        message = "no C++ compiler to link with: install g++ or clang++, or name one in CXX"
        if said:
            message = (
                f"{compiler} can't link a library ({said}): install binutils and the C library's "
                "files (libc6-dev), or name another compiler in CXX"
            )
        elif compiler:
            message = (
                f"CXX is {compiler!r}, which is no program: give a compiler's name or path, "
                "without options, or unset CXX"
            )
        super().__init__(message)


class NoDiskSpace(TunerError):
    """Order a smaller shape; raise TUNER_SCRATCH_BYTES, or free the temporary folder."""

    def __init__(self, what: str, needed: int, limit: str) -> None:
        super().__init__(f"{what} take {needed} bytes of temporary files, and {limit}")


class NotReady(TunerError):
    """Give the machine what the message names. Jobs that it could not run wait in the queue."""

    def __init__(self, error: Exception) -> None:
        way_out = ""
        if isinstance(error, OSError):
            way_out = "; name a folder on a sound disk in TMPDIR, and allow more files (ulimit -n)"
        super().__init__(f"no job can be run on this machine now: {error}{way_out}")


class NothingWorked(TunerError):
    """Look at the trials' errors; a looser max_error or more trials may help."""


class UnusableFile(TunerError):
    """Name another file or folder."""

    def __init__(self, path: Path | str, why: str) -> None:
        super().__init__(f"{path}: {why}")


class UnusableModel(TunerError):
    """Correct the name or the input as the message says, or list the layers in a file."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")


class BrokenArtifact(TunerError):
    """Fetch the artifact again; if its bytes stay wrong, tune the workload again."""


class UntrustedSigner(TunerError):
    """Find out whose key it is and trust it as the message says, or tune the workload again."""


class BadSigningKey(TunerError):
    """Repair the key file, name another, or move it away. If a new key is made, clients must trust
    the new key."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"the signing key {path}: {why}; repair that, or name another file in "
            "TUNER_SIGNING_KEY. If the file is damaged, move it away: a new key is made, which "
            "clients must trust"
        )


class NotAKey(TunerError):
    """Give a public key as GET /signers and ``tuner trust`` show it."""

    def __init__(self, given: object, digits: int) -> None:
        super().__init__(
            f"{str(given)[:80]!r} is no public key to trust: one has {digits} lower-case "
            "hexadecimal digits, as GET /signers and `tuner trust URL` show"
        )


class MissingRuntime(TunerError):
    """Install what the message names."""

    def __init__(self, missing: str, way_out: str) -> None:
        super().__init__(f"{missing}: {way_out}")


class ForeignDevice(TunerError):
    """Ask for the best of this machine's device, or tune the workload here."""


class WrongArgument(TunerError):
    """Convert the array as the message says."""


class WrongShape(WrongArgument):
    """Give an array of the workload's shape, or fetch the library of this shape."""


class WrongDtype(WrongArgument):
    """Convert the array to the workload's dtype."""


class WrongDevice(WrongArgument):
    """Move the array to the library's device."""


class WrongLayout(WrongArgument):
    """Copy the array: a copy is contiguous and writable, and shares no memory with others."""


class ServiceError(TunerError):
    """Change the request as the service's answer says.

    ``status`` is the HTTP status, None if there was no answer. ``problem`` is the answer's problem
    document (RFC 9457); ``type`` and ``detail`` are members of it. ``errors`` lists the fields at
    fault, each as ``{"field", "message"}``.
    """

    def __init__(
        self, status: int | None, detail: str, problem: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(detail if status is None else f"{detail} (HTTP {status})")
        self.status = status
        self.detail = detail
        self.problem = dict(problem or {})
        self.type: str = self.problem.get("type", "about:blank")
        self.errors: list[dict[str, str]] = self.problem.get("errors", [])


class NotTuned(ServiceError):
    """Submit the shape and wait for its job."""


class ServiceUnreachable(ServiceError):
    """Start the service, or correct the URL that the message names."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(
            None,
            f"no service answers at {url} ({why}): start one with `tuner serve`, "
            "or give the client another url",
        )
        self.url = url

    @classmethod
    def from_error(cls, url: str, error: Exception) -> Self:
        """Return the error for a request to ``url`` that ended with another library's ``error``."""
        return cls(url, f"{type(error).__name__}: {error}")


class JobFailed(TunerError):
    """Look at the job's trials, correct what the reason names and submit the shape again."""

    def __init__(self, job: Job) -> None:
        reason = f": {job.error}" if job.error else ""
        how = "was cancelled" if job.state == "cancelled" else job.state
        super().__init__(f"job {job.id} {how}{reason}")
        self.job = job


class StillRunning(TunerError):
    """Wait for the job again: it continues, and no trial is lost."""

    def __init__(self, job: Job, seconds: float) -> None:
        done = f"{job.trials.measured} of {job.trials.requested} trials"
        why = f"; {job.waiting}" if job.waiting else ""
        super().__init__(f"job {job.id} is {job.state} after {seconds:g} s, with {done}{why}")
        self.job = job


class ModelFailed(TunerError):
    """Look at the jobs that did not succeed, correct their causes and order the model again.

    Layers that are tuned already are not tuned again.
    """

    def __init__(self, model: ModelShown) -> None:
        others = [each for each in model.layers if each.state != "succeeded"]
        jobs = ", ".join(each.job for each in others[:3]) + (", …" if len(others) > 3 else "")
        how = "was cancelled" if model.state == "cancelled" else model.state
        super().__init__(
            f"model {model.id} {how}: {len(others)} of {len(model.layers)} jobs did not succeed "
            f"({jobs})"
        )
        self.model = model


class ModelStillRunning(TunerError):
    """Wait for the model again: it continues, and no trial is lost."""

    def __init__(self, model: ModelShown, seconds: float) -> None:
        jobs = model.progress.jobs
        super().__init__(
            f"model {model.id} is {model.state} after {seconds:g} s, with {jobs.ended} of "
            f"{jobs.all} jobs ended"
        )
        self.model = model


class NoLibrary(TunerError):
    """Submit the shape: the library of a nearest match was compiled for another shape."""


class ChildFailed(TunerError):
    """Base of the errors that a call in a child process can end with."""


class ChildError(ChildFailed):
    """An exception of the call in the child: its message, and its ``traceback`` as text."""

    def __init__(self, traceback: str) -> None:
        lines = [line for line in traceback.strip().splitlines() if line.strip()]
        raised = [n for n, line in enumerate(lines) if not line.startswith((" ", "Traceback"))]
        last = raised[-1] if raised else 0
        while last and (last - 1) in raised:  # an error's text may have several lines
            last -= 1
        super().__init__("\n".join(lines[last:])[:2000])
        self.traceback = traceback


class ChildCrashed(ChildFailed):
    """The end of the child process during the call.

    The message names the signal or exit code by which it died, or says that it was killed because
    it sent something that is no answer.
    """


class MachineError(ChildCrashed):
    """Free memory on the machine, let it start more processes, or repair its packages: the call is
    not to blame.

    The child could not be started, could not import what each call needs, or was killed by SIGKILL,
    which the kernel sends if memory runs out.
    """


class ChildTimeout(ChildFailed):
    """Raise the time limit if the work really takes longer: the child was killed at the limit."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"killed after {seconds:g} s")

    @staticmethod
    def limit_in(message: str) -> float | None:
        """Return the limit in seconds that an error's message names; None if it names none."""
        told = re.fullmatch(r"killed after (\d+(?:\.\d+)?(?:e[+-]\d+)?) s", message)
        return float(told[1]) if told else None
