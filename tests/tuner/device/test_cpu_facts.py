"""The target of a CPU leaves out the instructions that a hypervisor hides."""

import pytest

from tuner.device import cpu_facts


@pytest.mark.parametrize(
    ("flags", "hidden"),
    [
        ({*cpu_facts.FEATURES, "avx512_fp16"}, set()),
        ({*cpu_facts.FEATURES} - {"avx512fp16"}, {"-avx512fp16"}),
        ({*cpu_facts.FEATURES, "avx512_fp16"} - {"f16c"}, {"-f16c"}),
        (set(), set()),  # the system does not list the CPU's features
    ],
)
def test_cpu_target_leaves_out_hidden_instructions(
    monkeypatch: pytest.MonkeyPatch, flags: set[str], hidden: set[str]
) -> None:
    monkeypatch.setattr(cpu_facts, "_flags", lambda: flags)
    assert set(cpu_facts.device().target.get("mattr", [])) == hidden
