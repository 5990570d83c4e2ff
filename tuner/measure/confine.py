"""What a process that tries candidates on the CPU can't do: take all memory for itself, write
files outside its folder, start processes, signal others, reach the network.

The finalists' round is not confined: PyTorch and Triton start processes there. Only what passed
every check in a confined process comes so far.

Linux's own means for processes without privileges: resource limits, Landlock (file system) and
seccomp (system calls). A kernel without one of them gives the others.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
SECCOMP_MODE_FILTER = 2
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_VERSION, RULE_PATH_BENEATH = 1, 1
WRITE_FILE, WRITES = 0x2, 0x1FF2
"""Landlock's rights of its first version but to execute and to read: write, remove, make."""
SINCE = {2: 1 << 13, 3: 1 << 14}  # by version: link elsewhere, truncate
FILE_BYTES = 8 << 30
"""The largest file that may be written: a reference in float64 of the largest workload is half."""


@dataclass(frozen=True)
class Confinement:
    """``writable`` are the folders that may be written below; ``memory_bytes`` bounds what the
    process allocates."""

    writable: tuple[str, ...]
    memory_bytes: int


def confine(limits: Confinement) -> None:
    """Confine this process, and whatever thread it starts, for good."""
    _limit(resource.RLIMIT_DATA, limits.memory_bytes)
    _limit(resource.RLIMIT_FSIZE, FILE_BYTES)
    _limit(resource.RLIMIT_CORE, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return
    _write_nowhere_but(libc, limits.writable)
    if platform.machine() == "x86_64":
        _filter_calls(libc)


def _limit(which: int, most: int) -> None:
    _, hard = resource.getrlimit(which)
    allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (allowed, allowed))


def _write_nowhere_but(libc: ctypes.CDLL, folders: Sequence[str]) -> None:
    version = libc.syscall(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_VERSION)
    if version < 1:
        return
    rights = WRITES
    for first, right in SINCE.items():
        rights |= right if version >= first else 0
    of_files = rights & (WRITE_FILE | SINCE[3])
    handled = struct.pack("=Q", rights)
    ruleset = libc.syscall(LANDLOCK_CREATE_RULESET, handled, len(handled), 0)
    for path in (*folders, os.devnull):
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", rights if Path(path).is_dir() else of_files, opened)
        libc.syscall(LANDLOCK_ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, 0)
        os.close(opened)
    libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


# Classic BPF over struct seccomp_data: the number of the call, the architecture, the arguments.
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
X86_64, X32 = 0xC000003E, 0x40000000  # the second: the same calls by other numbers
ALLOW, FAIL = 0x7FFF0000, 0x00050000  # FAIL | errno
CLONE, CLONE_THREAD, CLONE3 = 56, 0x00010000, 435
SOCKET, AF_UNIX = 41, 1
TGKILL = 234
DENIED = {
    "fork": 57, "vfork": 58, "execve": 59, "execveat": 322,
    "kill": 62, "tkill": 200, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297,
    "pidfd_send_signal": 424, "ptrace": 101, "process_vm_writev": 311,
    "io_uring_setup": 425,  # sockets by another door
}  # fmt: skip


def _filter_calls(libc: ctypes.CDLL) -> None:
    program = _program(os.getpid())
    code = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: how many instructions, where
    told = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, told, 0, 0)


def _program(pid: int) -> bytes:
    """New threads may be made, processes not; this process may signal itself (as abort() does);
    sockets within the machine only."""
    denied, absent = (RETURN, 0, 0, FAIL | errno.EPERM), (RETURN, 0, 0, FAIL | errno.ENOSYS)
    allowed = (RETURN, 0, 0, ALLOW)
    lines = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, X86_64),
        denied,
        (LOAD, 0, 0, NUMBER),
        (AT_LEAST, 0, 1, X32),
        denied,
    ]
    for number in DENIED.values():
        lines += [(EQUAL, 0, 1, number), denied]
    lines += [(EQUAL, 0, 1, CLONE3), absent]  # its flags lie in memory: glibc then calls clone
    for number, test, value in (
        (CLONE, ANY_BIT, CLONE_THREAD),
        (SOCKET, EQUAL, AF_UNIX),
        (TGKILL, EQUAL, pid),
    ):
        lines += [
            (EQUAL, 0, 4, number),
            (LOAD, 0, 0, FIRST_ARGUMENT),
            (test, 1, 0, value),
            denied,
            allowed,
        ]
    lines.append(allowed)
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
