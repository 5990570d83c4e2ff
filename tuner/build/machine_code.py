"""Reading the machine code of CUDA kernels: does a launch that begins early wait before it loads?

The compiler may move a load before the wait if it takes the memory for constant. It does so in some
configurations.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

WAIT, AWAIT_COPY = 0x82E, 0x5A7
BRANCH, EXIT, SPLIT, JOIN, CALL, RETURN = 0x947, 0x94D, 0x945, 0x941, 0x944, 0x950
ELSEWHERE = (0x343, 0x344, 0x943, 0x949, 0x94A, 0x94C)
LOADS_AND_STORES = (0x980, 0x981, 0x985, 0x986)
ATOMICS = (0x38B, 0x3A9, 0x98A, 0x98E, 0x9A2, 0x9A3, 0x9A6, 0x9A8)
COPIES = (0xFAE, 0x3B5, 0x3BA, 0x3BB, 0x5B4)
USES_OF_MEMORY = LOADS_AND_STORES + ATOMICS + COPIES
"""Opcodes as NVRTC 13 compiles one instruction each for compute capabilities 9.0, 10.0 and 12.0,
and as ``nvdisasm`` shows them.

WAIT is the wait of an early launch. AWAIT_COPY looks at a barrier at which copies arrive. BRANCH,
EXIT, CALL and RETURN are a branch, the end of a thread, a call and its return. Threads part at
SPLIT and join again at JOIN. ELSEWHERE are jumps and calls to an address in a register.
USES_OF_MEMORY use global memory; COPIES include copies of boxes."""

SIZE = 16  # bytes of an instruction


@dataclass(frozen=True)
class Instruction:
    """An instruction. ``is_always`` says whether every thread executes it.

    ``joining`` is the register with the threads that join, if the instruction has one. ``target``
    is the number of the instruction that it leads to.
    """

    opcode: int
    is_always: bool
    joining: int
    target: int


def uses_memory_before_wait(cubin: bytes) -> bool:
    """Return whether a kernel that waits for the launch before it may use global memory first.

    A path through a kernel has waited if it has executed a wait, or if it has awaited the copy of
    another thread, because that thread has waited. An instruction that leads to an unknown address
    counts as a use of memory.
    """
    return any(_is_early(code) for code in kernels(cubin) if WAIT in opcodes(code))


def kernels(cubin: bytes) -> list[bytes]:
    """Return the machine code of each kernel."""
    return list(sections(cubin, b".text.").values())


def opcodes(code: bytes) -> list[int]:
    """Return the opcodes of a kernel's instructions, in the order of their addresses."""
    return [low & 0xFFF for (low, _) in struct.iter_unpack("<QQ", code)]


def sections(elf: bytes, prefix: bytes) -> dict[bytes, bytes]:
    """Return the contents of the sections whose names begin with ``prefix``, by name."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    entry, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + i * entry) for i in range(count)]
    strings = headers[names][4]
    found = {}
    for header in headers:
        start = strings + header[0]
        name = elf[start : elf.index(b"\0", start)]
        if name.startswith(prefix):
            found[name] = elf[header[4] : header[4] + header[5]]
    return found


def _is_early(code: bytes) -> bool:
    seen = set[tuple[int, frozenset[tuple[int, int]]]]()
    left = [(0, dict[int, int]())]  # instructions to look at, and where threads then join
    while left:
        at, joins = left.pop()
        state = at, frozenset(joins.items())
        if state in seen or at * SIZE >= len(code):
            continue
        seen.add(state)
        each = _instruction(code, at)
        leads_nowhere = each.opcode == JOIN and each.joining not in joins
        if each.opcode in USES_OF_MEMORY or each.opcode in ELSEWHERE or leads_nowhere:
            return True
        if each.opcode in (WAIT, AWAIT_COPY) and each.is_always:
            continue
        if each.opcode == SPLIT:
            joins = joins | {each.joining: each.target}
        if each.opcode in (BRANCH, CALL):
            left.append((each.target, joins))
        if each.opcode == JOIN:
            left.append((joins[each.joining], joins))
        if each.opcode not in (BRANCH, EXIT, RETURN, JOIN) or not each.is_always:
            left.append((at + 1, joins))
    return False


def _instruction(code: bytes, at: int) -> Instruction:
    low, high = struct.unpack_from("<QQ", code, at * SIZE)
    opcode, is_always = low & 0xFFF, low >> 12 & 0xF == 7
    distance = low >> 34 | (high & 0x3FFFF) << 30  # 48 bits, from the next instruction on
    if distance >> 47:
        distance -= 1 << 48
    if opcode in (BRANCH, CALL):
        distance = distance << 8 | low >> 16 & 0xFF
    if opcode == BRANCH:
        is_always &= high >> 23 & 7 == 7  # it has a second condition
    return Instruction(opcode, is_always, low >> 16 & 0xF, at + 1 + distance * 4 // SIZE)
