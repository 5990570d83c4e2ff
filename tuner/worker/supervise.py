"""Supervision of several processes (workers or RPC servers): each is restarted if it ends."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from tuner.process import own_modules
from tuner.process.stopping import pause

log = structlog.get_logger()

PR_SET_PDEATHSIG = 1
POLL_SECONDS = 0.2
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a process that ended is restarted. The pause doubles each time."""
STABLE_SECONDS = 300.0
"""After a process has lived for this many seconds, its pause is FIRST_PAUSE again."""
STOP_SECONDS = 30.0
"""Seconds before a process that was asked to end is killed. A worker takes up to ten to give its
job back."""


@dataclass
class _Member:
    """One supervised process, or the wait until it is restarted at ``restart_at``."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    pause: float = FIRST_PAUSE
    restart_at: float = field(default_factory=time.monotonic)

    def start(self) -> None:
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            self.command,
            env={**os.environ, **own_modules.environment(), **self.environment},
            preexec_fn=_end_with_parent,  # noqa: PLW1509  # this process has one thread
        )
        log.info("member_started", member=self.name, pid=self.process.pid)

    def ended(self) -> int | None:
        """Return the exit code at the first call after the process has ended; else None."""
        code = None if self.process is None else self.process.poll()
        if code is None:
            return None
        self.process = None
        if time.monotonic() - self.started > STABLE_SECONDS:
            self.pause = FIRST_PAUSE
        self.restart_at = time.monotonic() + self.pause
        self.pause = min(2 * self.pause, LONGEST_PAUSE)
        return code


def supervise(members: Mapping[str, Mapping[str, str]], command: Sequence[str], once: bool) -> None:
    """Run ``command`` as one process for each member and restart those that end.

    ``members`` maps a name to the variables that are added to the process's environment. With
    ``once``, return when each process has ended with code 0. Without it, only an exception such as
    Stopped ends this function. At the end all processes are asked to end and waited for.
    """
    running = [_Member(name, command, variables) for name, variables in members.items()]
    try:
        while running:
            for member in list(running):
                code = member.ended()
                if code == 0 and once:
                    running.remove(member)
                    continue
                if code is not None:
                    wait = round(member.restart_at - time.monotonic(), 1)
                    log.warning("member_ended", member=member.name, code=code, again_in_s=wait)
                if member.process is None and time.monotonic() >= member.restart_at:
                    member.start()
            pause(POLL_SECONDS)
    finally:
        stop_processes(
            [member.process for member in running if member.process is not None], STOP_SECONDS
        )


def stop_processes(processes: Sequence[subprocess.Popen[bytes]], seconds: float) -> None:
    """Ask processes to end and wait for them; kill those that have not ended after ``seconds``."""
    for process in processes:
        process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + seconds
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _end_with_parent() -> None:
    """Let the kernel send SIGTERM to the calling child process when its parent dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
