"""What a process that tries candidates can't do: take all memory for itself, write files outside
its folder, start processes, signal others or set their priority, leave something in the kernel that
outlives it, outlive its parent, reach the network or a database.

One without a folder has limits alone: builders call a linker, and in the finalists' round PyTorch
and Triton start processes. What comes there passed every check in a confined process.

Linux's own means for processes without privileges: resource limits, Landlock (file system) and
seccomp (system calls). A kernel without one of them gives the others.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import resource
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
SECCOMP_MODE_FILTER = 2
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_VERSION, RULE_PATH_BENEATH = 1, 1
WRITE_FILE, WRITES = 0x2, 0x1FF2
"""Landlock's rights of its first version but to execute and to read: write, remove, make."""
SINCE = {2: 1 << 13, 3: 1 << 14}  # by version: link elsewhere, truncate
TCP, TCP_SINCE = 0x3, 4  # listen, connect
BEYOND, BEYOND_SINCE = 0x3, 6  # abstract sockets and processes that are not of this sandbox
FILE_BYTES = 8 << 30
"""The largest file that may be written: a reference in float64 of the largest workload is half."""
FIRST_TO_GO = 1000
"""Where the machine's memory ends all the same (shared mappings and a GPU's pinned memory count as
nobody's), the kernel ends this process, not the worker or the database."""
THREADS = "/proc/self/task"
"""Of this process alone. CUDA writes its threads' names there, and does not start where it can't.
It stays open: /proc may make a folder anew that nobody holds, and the rule is for this one. The
score for the out-of-memory killer lies there too: hence only for GPUs, and PR_SET_DUMPABLE."""


@dataclass(frozen=True)
class Confinement:
    """``memory_bytes`` bounds what the process allocates. With a ``folder`` it writes nowhere but
    below that and to ``devices`` (device files), starts no process, and signals and reaches none;
    without one, it may all that."""

    memory_bytes: int | None = None
    folder: str | None = None
    devices: tuple[str, ...] = ()


def confine(limits: Confinement) -> None:
    """Confine this process, and whatever it starts, for good."""
    if limits.memory_bytes is not None:
        _limit(resource.RLIMIT_DATA, limits.memory_bytes)
    _limit(resource.RLIMIT_FSIZE, FILE_BYTES)
    _limit(resource.RLIMIT_CORE, 0)
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(FIRST_TO_GO))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or limits.folder is None:
        return
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # of its files in /proc it may write names alone
    _write_nowhere_but(libc, limits.folder, limits.devices)
    if platform.machine() == "x86_64":
        _filter_calls(libc)


def _limit(which: int, most: int) -> None:
    """To ``most``, or to what is set already where that is less."""
    bounds = [most, *resource.getrlimit(which)]
    allowed = min(bound for bound in bounds if bound != resource.RLIM_INFINITY)
    resource.setrlimit(which, (allowed, allowed))


def _write_nowhere_but(libc: ctypes.CDLL, folder: str, devices: tuple[str, ...]) -> None:
    version = libc.syscall(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_VERSION)
    if version < 1:
        return
    rights = WRITES
    for first, right in SINCE.items():
        rights |= right if version >= first else 0
    of_files = rights & (WRITE_FILE | SINCE[3])
    handled = struct.pack(
        "=QQQ", rights, TCP * (version >= TCP_SINCE), BEYOND * (version >= BEYOND_SINCE)
    )
    ruleset = libc.syscall(LANDLOCK_CREATE_RULESET, handled, len(handled), 0)
    threads = (THREADS,) if devices else ()
    for path in (*devices, *threads, os.devnull, folder):
        try:
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        rule = struct.pack("=Qi", rights if path == folder else of_files, opened)
        libc.syscall(LANDLOCK_ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, 0)
        if path != THREADS:
            os.close(opened)
    libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


# Classic BPF over struct seccomp_data: the number of the call, the architecture, the arguments.
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE, ARGUMENTS, ARGUMENT_BYTES = 0, 4, 16, 8
X86_64, X32 = 0xC000003E, 0x40000000  # the second: the same calls by other numbers
ALLOW, FAIL = 0x7FFF0000, 0x00050000  # FAIL | errno
CLONE3, CONNECT = 435, 42
DENIED = {
    "fork": 57, "vfork": 58, "execve": 59, "execveat": 322,
    "kill": 62, "tkill": 200, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297,
    "pidfd_send_signal": 424, "ptrace": 101, "process_vm_writev": 311,
    "io_uring_setup": 425,  # sockets by another door
    # Landlock looks after contents, not after owners, modes, times and attributes
    "chmod": 90, "fchmod": 91, "fchmodat": 268, "fchmodat2": 452,
    "chown": 92, "fchown": 93, "lchown": 94, "fchownat": 260,
    "utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280,
    "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "setxattrat": 463,
    "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199, "removexattrat": 466,
    # memory, semaphores, queues and keys: the kernel keeps them, for others to find
    "shmget": 29, "shmat": 30, "shmctl": 31, "semget": 64, "semop": 65, "semctl": 66,
    "semtimedop": 220, "msgget": 68, "msgsnd": 69, "msgrcv": 70, "msgctl": 71,
    "mq_open": 240, "mq_unlink": 241,
    "add_key": 248, "request_key": 249, "keyctl": 250,
    # namespaces, in which a process is its own administrator, and what it could do there
    "unshare": 272, "setns": 308, "chroot": 161, "pivot_root": 155, "mount": 165, "umount2": 166,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fspick": 433, "mount_setattr": 442,
}  # fmt: skip
CLONE_THREAD, CLONE_NEW = 0x00010000, 0x7E020000
"""The second: a namespace, of any kind."""
AF_UNIX, CONNECTED, DATAGRAM = 1, 0x1, 0x2
"""Bits of a socket's type: streams and sequenced packets, which connect has to lead somewhere, have
the one, datagrams and what the kernel makes of raw sockets the other."""
ITSELF, PRIO_PROCESS, IOPRIO_WHO_PROCESS = 0, 0, 1

Condition = tuple[int, int, int, bool]
"""Of an argument's lower half: its place, a test, the value it is compared with, what must come."""


def _conditions(pid: int) -> dict[int, tuple[Condition, ...]]:
    """By a call's number, what must hold or it is denied."""
    near: tuple[Condition, ...] = (
        (0, EQUAL, AF_UNIX, True),
        (1, ANY_BIT, CONNECTED, True),
        (1, ANY_BIT, DATAGRAM, False),
    )
    itself: Condition = (0, EQUAL, ITSELF, True)
    return {
        56: ((0, ANY_BIT, CLONE_THREAD, True), (0, ANY_BIT, CLONE_NEW, False)),  # clone
        41: near,  # socket
        53: near,  # socketpair
        157: (  # prctl
            (0, EQUAL, PR_SET_PDEATHSIG, False),
            (0, EQUAL, PR_SET_DUMPABLE, False),
        ),
        234: ((0, EQUAL, pid, True),),  # tgkill
        302: (itself,),  # prlimit64
        142: (itself,),  # sched_setparam
        144: (itself,),  # sched_setscheduler
        314: (itself,),  # sched_setattr
        141: ((0, EQUAL, PRIO_PROCESS, True), (1, EQUAL, ITSELF, True)),  # setpriority
        251: ((0, EQUAL, IOPRIO_WHO_PROCESS, True), (1, EQUAL, ITSELF, True)),  # ioprio_set
    }


def _filter_calls(libc: ctypes.CDLL) -> None:
    program = _program(os.getpid())
    code = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: how many instructions, where
    told = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, told, 0, 0)


def _program(pid: int) -> bytes:
    """New threads may be made, processes not; this process may signal itself (as abort() does) and
    set its own limits and priority. Sockets within the machine only, and none of them reaches
    anybody, such as a database: nobody seems to listen there, as CUDA finds it where it looks for
    an MPS."""
    denied, absent = (RETURN, 0, 0, FAIL | errno.EPERM), (RETURN, 0, 0, FAIL | errno.ENOSYS)
    refused = (RETURN, 0, 0, FAIL | errno.ECONNREFUSED)
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
    lines += [(EQUAL, 0, 1, CONNECT), refused]
    for number, conditions in _conditions(pid).items():
        lines.append((EQUAL, 0, 3 * len(conditions) + 1, number))
        for place, test, value, wanted in conditions:
            lines += [
                (LOAD, 0, 0, ARGUMENTS + ARGUMENT_BYTES * place),
                (test, 1, 0, value) if wanted else (test, 0, 1, value),
                denied,
            ]
        lines.append(allowed)
    lines.append(allowed)
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
