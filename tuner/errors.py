"""What can go wrong in `tuner`, each with what to do about it.

TunerError
├── UnknownStrategy      no search strategy has that name
├── NoDevice             the target asked for is not on this machine
├── NoLinker             no C++ compiler is here to link a library with
├── NothingWorked        no configuration was built, right and timed
├── BrokenArtifact       a library's bytes do not match their name, or it can't be loaded
├── ServiceError         the service refused a request
└── ChildFailed
    ├── ChildError       the call raised in the child
    ├── ChildCrashed     the child died in the call
    └── ChildTimeout     the call outlasted its deadline and the child was killed
"""

from collections.abc import Iterable


class TunerError(Exception):
    """Base of every error that `tuner` raises."""


class UnknownStrategy(TunerError):
    """Ask for one of the strategies that the message names."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"unknown search strategy {name!r}; known are: {', '.join(sorted(known))}")
        self.name = name


class NoDevice(TunerError):
    """Install what the message names, or take --target cpu."""

    def __init__(self, missing: str) -> None:
        super().__init__(f"target cuda: {missing}; use --target cpu, or run on a GPU host")


class NoLinker(TunerError):
    """Install a C++ compiler (g++ or clang++), or name one in CXX."""

    def __init__(self) -> None:
        super().__init__("no C++ compiler to link with: install g++ or clang++, or name one in CXX")


class NothingWorked(TunerError):
    """Look at the trials' errors; a looser max_error or more trials may help."""


class BrokenArtifact(TunerError):
    """Fetch the artifact again; if its bytes stay wrong, tune the workload again."""


class ServiceError(TunerError):
    """Change the request as the service's answer says."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{detail} (HTTP {status})")
        self.status = status


class ChildFailed(TunerError):
    """Base of what a call in a child process can come to."""


class ChildError(ChildFailed):
    """The call raised: the message is its error, ``traceback`` says where."""

    def __init__(self, traceback: str) -> None:
        lines = [line for line in traceback.strip().splitlines() if line.strip()]
        raised = [n for n, line in enumerate(lines) if not line.startswith((" ", "Traceback"))]
        last = raised[-1] if raised else 0
        while last and (last - 1) in raised:  # an error's text may have several lines
            last -= 1
        super().__init__("\n".join(lines[last:])[:2000])
        self.traceback = traceback


class ChildCrashed(ChildFailed):
    """The process died in the call; the message names the signal or exit code."""


class ChildTimeout(ChildFailed):
    """The process was killed at its deadline; raise the limit if the work is honest."""
