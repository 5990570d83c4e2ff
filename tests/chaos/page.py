"""The page in Markdown about a run of the long chaos suite."""

from __future__ import annotations

import re
from typing import Any

from tests.chaos.damage import HARMS
from tests.chaos.disk import MEGABYTES
from tests.chaos.storm import HANDS
from tests.chaos.storms import PAUSED_LEASE_SECONDS

ABOUT = f"""
Each storm passes over a new database, with its blows in an order and at moments drawn with the
seed, and ends with every figure below compared to what was confirmed before.

- **Hands** are {HANDS} processes that claim jobs, store trials and bests and end jobs as workers
  do, without kernels. Each writes down what the database confirmed, on its way to the disk before
  it does the next thing. A kill is SIGKILL, under the lease of 30 s that workers have; a pause is
  SIGSTOP for longer than a lease of {PAUSED_LEASE_SECONDS:g} s, then SIGCONT. Where clocks are
  wrong, Python's are moved in a third of the processes by 5 minutes forwards, in a third backwards:
  leases are on the database's clock, and SQLite's is its machine's.
- **Real workers** are two `tuner worker` processes on jobs of 12 trials. They are killed once they
  are at work; paused while they hold a job, the lease of which is let run out; and the processes
  that build and measure for them are killed. Afterwards none that they started may be alive, and
  their folder for temporary files must be empty.
- **The service** is killed (SIGKILL) and started again while customers order jobs with an
  Idempotency-Key, repeat orders, cancel and read, and listeners follow jobs with Last-Event-ID. An
  order that was answered is there once; one whose answer was lost makes one job when it is
  repeated; a listener hears each trial once. On SQLite another process locks the file meanwhile.
- **A full disk** is a tmpfs of {MEGABYTES} MB that is filled to its last byte and freed
  again: SQLite's file lies there, or PostgreSQL's tablespace.
- **A lock** is BEGIN IMMEDIATE or EXCLUSIVE of another process, for up to 2 s where nobody waits
  longer than 1 s.

What must be 0: lost is what was confirmed and is not there; doubled what is there twice; stale what
an attempt wrote after a later one had begun; early a claim of a job whose lease was still good. The
remaining harms are beside it: jobs that did not end, succeeded ones without a best, errors other
than the storage's, events left out or sent twice, processes and files of killed workers, findings
of `tuner db check`, and an orphan taken up after more than 35 s: the time from the last line of a
killed attempt to the next claim. It is not asked of real workers, who are busy for longer with one
job. Writes that were refused, with the reason, are no harm.
""".strip()
FIRST = ("lost", "doubled", "stale", "early")


def page(result: dict[str, Any]) -> str:
    """Return in Markdown what ``python -m tests.chaos --write`` writes as JSON."""
    lines = [
        "# Chaos",
        "",
        f"{result['device']}, {result['date']}.",
        "",
        f"    {result['command']}",
        "",
        _verdict(result["storms"]),
        "",
        ABOUT,
        "",
        "| storm | blows | trials | jobs | lost | doubled | stale | early | other harm "
        "| longest orphan, s | writes refused | s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
        *map(_row, result["storms"]),
        "",
        "Besides:",
        "",
        *(
            f"- {each['storm']}: {_counted(each['damage']['done'])}"
            for each in result["storms"]
            if each["damage"]["done"]
        ),
        "",
        "Why writes were refused:",
        "",
        *(f"- {reason}" for reason in _reasons(result["storms"])),
        "",
    ]
    return "\n".join(lines)


def _verdict(storms: list[dict[str, Any]]) -> str:
    kills = sum(
        count
        for each in storms
        for blow, count in each["damage"]["blows"].items()
        if blow in ("kill", "child", "service killed")
    )
    blows = {
        name: sum(each["damage"]["blows"].get(name, 0) for each in storms)
        for name in ("pause", "restart", "lock", "filling")
    }
    sums = {name: sum(each["damage"][name] for each in storms) for name in FIRST}
    return (
        f"{kills} SIGKILLs, {blows['pause']} pauses beyond a lease, {blows['restart']} restarts of "
        f"PostgreSQL, {blows['lock']} locks, {blows['filling']} full disks: "
        + ", ".join(f"{count} {name}" for name, count in sums.items())
        + "."
    )


def _row(each: dict[str, Any]) -> str:
    damage = each["damage"]
    other = [f"{name} {damage[name]}" for name in HARMS if name not in FIRST and damage[name]]
    other += [line for line in each["harm"] if line.split(":")[0] not in HARMS]
    orphan = damage["longest_orphan_seconds"]
    cells = [
        each["storm"],
        _counted(damage["blows"]),
        damage["trials"],
        _counted(damage["states"]),
        *(damage[name] for name in FIRST),
        "; ".join(other).replace("|", "/") or "none",
        f"{orphan:.1f}" if orphan else "–",
        damage["refused"],
        f"{each['seconds']:.0f}",
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def _reasons(storms: list[dict[str, Any]]) -> list[str]:
    """Return the distinct reasons, without the names of files and servers."""
    found = {reason for each in storms for reason in each["damage"]["reasons"]}
    return sorted({re.sub(r'"[^"]*"', "…", reason).replace("_", " ") for reason in found})
