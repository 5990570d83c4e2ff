"""A machine that is not quiet is recognised, and the reason names the way out."""

import shlex
import subprocess
import sys
import time
from typing import Any

from tuner.device.cpu_facts import threads
from tuner.measure import noise as module
from tuner.measure.noise import WAY_OUT, OtherLoad, noise


def summary(spread: float) -> dict[str, Any]:
    return {"median_us": 10.0, "p10_us": 10.0, "p90_us": 10.0 * (1 + spread), "disturbed": 0.0}


def test_quiet_machine_has_no_reason_for_noise() -> None:
    found = noise(summary(0.02), 0.0, summary(0.05))
    assert (found["quiet"], found["reason"]) == (True, None)
    assert (round(found["spread"], 6), round(found["probe_spread"], 6)) == (0.05, 0.02)


def test_reason_for_noise_names_each_disturbance_and_the_way_out() -> None:
    found = noise(summary(0.5), float(threads()), summary(0.9))
    assert not found["quiet"]
    for part in (f"of {threads()} CPUs busy", "spread by 90%", "spread by 50%", WAY_OUT):
        assert part in found["reason"]
    assert noise(summary(0.5), 0.0, summary(0))["reason"] == (
        f"the samples of the empty program are spread by 50% of their median; {WAY_OUT}"
    )


SPIN = "import time\nwhile time.process_time() < 0.6: pass"


def test_load_of_other_processes_is_seen() -> None:
    """The load comes from a process that is no descendant of this one, because its parent has
    ended."""
    others = OtherLoad()
    command = f"({shlex.quote(sys.executable)} -c {shlex.quote(SPIN)} && echo over) &"
    with subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE) as shell:
        assert shell.communicate(timeout=60)[0] == b"over\n"
    assert others.load() > 0.1


def test_load_of_child_processes_counts_as_own() -> None:
    before = module._own()
    with subprocess.Popen([sys.executable, "-c", f"{SPIN}\ninput()"], stdin=subprocess.PIPE) as own:
        assert own.stdin is not None
        deadline = time.monotonic() + 60
        while module._own() - before < 0.5 and time.monotonic() < deadline:
            time.sleep(0.05)
        own.stdin.close()
    assert module._own() - before >= 0.5


def test_measure_noise_reports_spread_and_load() -> None:
    found = module.measure_noise()
    assert found["spread"] >= 0 and found["load"] >= 0
    assert found["quiet"] == (found["reason"] is None)
