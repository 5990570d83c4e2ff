"""Several workers as processes of their own, each started again when it ends by itself."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from tuner.process.stopping import pause

log = structlog.get_logger()

PR_SET_PDEATHSIG = 1
LOOK_SECONDS = 0.2
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a worker that ended is started again: twice as long each time."""
LASTING = 300.0
"""A worker that lived so many seconds is started again as if for the first time."""
STOP_SECONDS = 30.0
"""A worker gives its job back within ten."""


@dataclass
class _Member:
    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    pause: float = FIRST_PAUSE
    again_at: float = field(default_factory=time.monotonic)

    def start(self) -> None:
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            self.command,
            env={**os.environ, **self.environment},
            preexec_fn=_end_with_parent,  # noqa: PLW1509  # this process has one thread
        )
        log.info("member_started", member=self.name, pid=self.process.pid)

    def ended(self) -> int | None:
        """Its exit code, once."""
        code = None if self.process is None else self.process.poll()
        if code is None:
            return None
        self.process = None
        if time.monotonic() - self.started > LASTING:
            self.pause = FIRST_PAUSE
        self.again_at = time.monotonic() + self.pause
        self.pause = min(2 * self.pause, LONGEST_PAUSE)
        return code


def supervise(members: Mapping[str, Mapping[str, str]], command: Sequence[str], once: bool) -> None:
    """Run ``command`` once for each member, whose variables are added to the environment, until an
    exception ends this (Stopped, say): all are then asked to end, and waited for. With ``once``
    until each has ended with code 0."""
    running = [_Member(name, command, variables) for name, variables in members.items()]
    try:
        while running:
            for member in list(running):
                code = member.ended()
                if code == 0 and once:
                    running.remove(member)
                    continue
                if code is not None:
                    wait = round(member.again_at - time.monotonic(), 1)
                    log.warning("member_ended", member=member.name, code=code, again_in_s=wait)
                if member.process is None and time.monotonic() >= member.again_at:
                    member.start()
            pause(LOOK_SECONDS)
    finally:
        _stop([member.process for member in running if member.process is not None])


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _end_with_parent() -> None:
    """Where this process is killed, its workers are asked to end by the kernel."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
