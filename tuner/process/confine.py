"""Confinement of processes that run candidates. Such a process can't take all memory, write files
outside its folder, start processes, signal others or set their priority, leave something in the
kernel that outlives it, outlive its parent, or reach the network or a database.

A process without a folder has resource limits only. Builders need this to call a linker, and the
finalists' round because PyTorch and Triton start processes. Candidates get there only after they
have passed every check in a confined process.

The means are Linux's for processes without privileges: resource limits, Landlock (files) and
seccomp (system calls). If a kernel lacks one of them, the others still hold.
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
"""The rights of Landlock's first version, except executing and reading: write, remove, make."""
LATER_WRITE_RIGHTS = {2: 1 << 13, 3: 1 << 14}
"""Rights that later versions of Landlock add: to link into another folder, and to truncate."""
TCP, TCP_SINCE = 0x3, 4
"""The rights to bind and to connect, and the version of Landlock that adds them."""
SCOPES, SCOPES_SINCE = 0x3, 6
"""The scopes that keep a process from abstract sockets and from signals to processes outside of
its sandbox, and the version of Landlock that adds them."""
FILE_BYTES = 8 << 30
"""The largest file that may be written, twice a float64 reference of the largest workload."""
OOM_SCORE = 1000
"""The score for the out-of-memory killer. Shared mappings and a GPU's pinned memory count towards
no process's limit, so the machine's memory may still run out. Then the kernel must end this
process, not the worker or the database."""
THREADS = "/proc/self/task"
"""A folder of this process alone. CUDA writes its threads' names there, and does not start if it
can't. The folder stays open, because Landlock's rule is for this very object: /proc may make a new
one if nobody holds it. The folder also contains the score for the out-of-memory killer. So it is
writable only if there is a GPU, and PR_SET_DUMPABLE protects the score."""


@dataclass(frozen=True)
class Confinement:
    """The limits of a process.

    ``memory_bytes`` bounds the memory that it allocates. If there is a ``folder``, the process can
    write only below it and to ``devices`` (device files), and can't start, signal or reach other
    processes. Without a folder it can do all of that."""

    memory_bytes: int | None = None
    folder: str | None = None
    devices: tuple[str, ...] = ()


def confine(limits: Confinement) -> None:
    """Confine this process and whatever it starts. This can't be undone."""
    if limits.memory_bytes is not None:
        _limit(resource.RLIMIT_DATA, limits.memory_bytes)
    _limit(resource.RLIMIT_FSIZE, FILE_BYTES)
    _limit(resource.RLIMIT_CORE, 0)
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or limits.folder is None:
        return
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # in /proc it can now write its threads' names only
    _restrict_writes(libc, limits.folder, limits.devices)
    if platform.machine() == "x86_64":
        _filter_calls(libc)


def _limit(which: int, most: int) -> None:
    """Set a resource limit to ``most``, or leave it if it is smaller already."""
    bounds = [most, *resource.getrlimit(which)]
    allowed = min(bound for bound in bounds if bound != resource.RLIM_INFINITY)
    resource.setrlimit(which, (allowed, allowed))


def _restrict_writes(libc: ctypes.CDLL, folder: str, devices: tuple[str, ...]) -> None:
    """Let Landlock allow writing only below the folder, to the devices and to /dev/null. As far as
    its version can, let it also deny TCP, and signals and abstract sockets out of the sandbox."""
    version = libc.syscall(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_VERSION)
    if version < 1:
        return
    rights = WRITES
    for first, right in LATER_WRITE_RIGHTS.items():
        rights |= right if version >= first else 0
    of_files = rights & (WRITE_FILE | LATER_WRITE_RIGHTS[3])
    handled = struct.pack(
        "=QQQ", rights, TCP * (version >= TCP_SINCE), SCOPES * (version >= SCOPES_SINCE)
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


# The filter is classic BPF, which reads struct seccomp_data: the call's number, the architecture
# and the arguments.
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE, ARGUMENTS, ARGUMENT_BYTES = 0, 4, 16, 8
X86_64, X32 = 0xC000003E, 0x40000000  # x32: the same calls by numbers from here on
ALLOW, FAIL = 0x7FFF0000, 0x00050000  # FAIL | errno
CLONE3, CONNECT = 435, 42
DENIED = {
    "fork": 57, "vfork": 58, "execve": 59, "execveat": 322,
    "kill": 62, "tkill": 200, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297,
    "pidfd_send_signal": 424, "ptrace": 101, "process_vm_writev": 311,
    "io_uring_setup": 425,  # makes sockets without the call socket
    # Landlock protects contents, not owners, modes, times and attributes
    "chmod": 90, "fchmod": 91, "fchmodat": 268, "fchmodat2": 452,
    "chown": 92, "fchown": 93, "lchown": 94, "fchownat": 260,
    "utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280,
    "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "setxattrat": 463,
    "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199, "removexattrat": 466,
    # shared memory, semaphores, queues and keys stay in the kernel, where others find them
    "shmget": 29, "shmat": 30, "shmctl": 31, "semget": 64, "semop": 65, "semctl": 66,
    "semtimedop": 220, "msgget": 68, "msgsnd": 69, "msgrcv": 70, "msgctl": 71,
    "mq_open": 240, "mq_unlink": 241,
    "add_key": 248, "request_key": 249, "keyctl": 250,
    # calls that make a namespace, or need one: a process is the administrator of its own namespace
    "unshare": 272, "setns": 308, "chroot": 161, "pivot_root": 155, "mount": 165, "umount2": 166,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fspick": 433, "mount_setattr": 442,
}  # fmt: skip
CLONE_THREAD, CLONE_NEW = 0x00010000, 0x7E020000
"""Flags of clone: a thread, and a new namespace of any kind."""
AF_UNIX, CONNECTED, DATAGRAM = 1, 0x1, 0x2
"""A family of sockets, and bits of a socket's type. Streams and sequenced packets have the first
bit; they reach nobody without connect(). Datagrams have the second bit, and so have raw sockets,
which the kernel makes datagrams."""
ITSELF, PRIO_PROCESS, IOPRIO_WHO_PROCESS = 0, 0, 1

Condition = tuple[int, int, int, bool]
"""A test of an argument's lower 32 bits: the argument's place, the test, the value that it is
compared with, and the result that is wanted."""


def _conditions(pid: int) -> dict[int, tuple[Condition, ...]]:
    """Return the conditions of system calls by their number. A call is denied unless all hold."""
    local_stream_sockets: tuple[Condition, ...] = (
        (0, EQUAL, AF_UNIX, True),
        (1, ANY_BIT, CONNECTED, True),
        (1, ANY_BIT, DATAGRAM, False),
    )
    itself: Condition = (0, EQUAL, ITSELF, True)
    return {
        56: ((0, ANY_BIT, CLONE_THREAD, True), (0, ANY_BIT, CLONE_NEW, False)),  # clone
        41: local_stream_sockets,  # socket
        53: local_stream_sockets,  # socketpair
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
    # struct sock_fprog: the number of instructions, and their address
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0)


def _program(pid: int) -> bytes:
    """Return the BPF program that decides about each system call of process ``pid``.

    The process may make threads, but no processes. It may signal itself, as abort() does, and set
    its own limits and priority. It may make sockets within the machine, but not connect to anybody,
    such as a database. connect() fails as if nobody listened, as CUDA expects if no MPS runs."""
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
    # clone3's flags are in memory, which a filter can't read; without clone3 glibc calls clone
    lines += [(EQUAL, 0, 1, CLONE3), absent]
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
