"""The page on whole models, and a picture of each network's layers."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from tests.benchmarks.models.audio import AUDIO
from tests.benchmarks.models.causal import PREFIX, SHAPES
from tests.benchmarks.models.measured import OURS, speedup
from tests.benchmarks.tuned import stated
from tuner.torch.model.picture import picture

BARS = {
    ("convnext_tiny", 32): 1.2,
    ("convnext_tiny", 1): 1.35,
    **{
        (network, batch): 1.1
        for network in ("mobilenetv2_100", "mobilenetv3_large_100", "efficientnet_b0")
        for batch in (1, 32)
    },
}
"""The least speed-up on an H200 by network and batch. For all others it is 0.99."""
TRANSFORMERS_BAR = 1.1
"""The least speed-up of a model of transformers on an H200."""
GATED = " gated"
"""Part of a row's shape if the kernel computes the gates around a convolution, too."""

_LANGUAGE = [
    "Models with L, so many tokens a signal, are language models of transformers', whose blocks "
    "hold a causal convolution of three or four taps. They have neither head nor cache, the "
    "published layers' shapes and, but for LFM2, fewer layers: `tests/benchmarks/models/causal.py` "
    "has both. transformers computes with PyTorch alone what packages of kernels would else: a "
    "selective scan is a loop over all tokens in eager mode, and PyTorch's associative scan if it "
    "is compiled. Models with one are timed compiled.",
    "",
]
_AUDIO = [
    "Vocoders, codecs and speech encoders are transformers', too, with their default "
    "configurations; their L counts frames or samples. hifigan turns L frames of 80 mels into "
    "256 L samples, by 74 dense convolutions of 3 to 11 taps and four transposed ones, which stay "
    "PyTorch's. Whole networks run with PyTorch's default settings; for the layers' times cuDNN "
    "has chosen by trial (`cudnn.benchmark`).",
    "",
]


def page(result: dict[str, Any], name: str = "models") -> str:
    """Return the page of a result. The names of its pictures begin with ``name``."""
    return "\n".join([*_head(result), *_table(result, name), *_every_way(result)]) + "\n"


def draw(path: Path, result: dict[str, Any]) -> None:
    """Write a picture of each network beside the page: the times of its layers by PyTorch and
    tuned."""
    for row in result["rows"]:
        if "error" not in row:
            layers = [
                (
                    each["names"][0],
                    each["calls"] * each["pytorch_us"],
                    each["calls"] * each["time_us"],
                )
                for each in _called(row["report"])
                if each["by"] == "tuned" and each["pytorch_us"]
            ]
            path.with_name(_picture(path.name, row)).write_text(picture(layers))


def _picture(page: str, row: dict[str, Any]) -> str:
    where = "-cpu" if row["device"] == "cpu" else ""
    network = row["network"].removeprefix(PREFIX).replace("_", "-").replace(".", "-")
    length = f"-{row['length']}" if "length" in row else ""
    return f"{page}-{network}-{row['dtype']}-{row['batch']}{length}{where}.svg"


def _head(result: dict[str, Any]) -> list[str]:
    runs = [
        f"{number}. {stated(run, {})} `{run['command']}`"
        for number, run in enumerate(result["runs"], 1)
    ]
    return [
        "# Whole models, before and after",
        "",
        "Networks of timm's with random weights, for inference, their batch norms folded before "
        "anything is timed. Every way to run a network is captured in a CUDA graph on a GPU, and "
        "all are timed in turns in one process, 20 turns. Frozen is compiled with its weights as "
        'constants, `torch.compile(model, options={"freezing": True})`. '
        "The output of the optimised network "
        "differs from PyTorch's by so much of its largest value, where it was measured on "
        "weights that let layers matter. The layers' share is the sum of their times over the "
        "whole's, before and after. The last columns say how long the jobs took that tuned "
        "the network's layers, and how long `optimize_` takes if they are tuned.",
        "",
        *runs,
        "",
        *(_LANGUAGE if _has(result, SHAPES) else []),
        *(_AUDIO if _has(result, AUDIO) else []),
    ]


def _has(result: dict[str, Any], networks: Collection[str]) -> bool:
    """Return whether a row is of one of these models of transformers'."""
    return any(row["network"].removeprefix(PREFIX) in networks for row in result["rows"])


def _table(result: dict[str, Any], name: str) -> list[str]:
    lines = [
        "| network | PyTorch's fastest, ms | optimised, ms | times as fast | bar | layers tuned | "
        "µs of them: PyTorch, tuned | their share | output differs by | jobs, s | found in, s | "
        "run |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        if "error" in row:
            lines.append(f"| {row['name']} | {row['error']} | | | | | | | | | | {row['run'] + 1} |")
            continue
        theirs = {name: ms for name, ms in row["ms"].items() if not name.startswith(OURS)}
        ours = {name: ms for name, ms in row["ms"].items() if name.startswith(OURS)}
        first, best = min(theirs, key=theirs.__getitem__), min(ours, key=ours.__getitem__)
        rows = _called(row["report"])
        tuned = [each for each in rows if each["by"] == "tuned"]
        before = sum(each["calls"] * (each["pytorch_us"] or 0) for each in tuned)
        after = sum(each["calls"] * (each["time_us"] or 0) for each in tuned)
        lines.append(
            f"| [{row['name']}]({_picture(name, row)}) | {theirs[first]:.3f} {first} | "
            f"{ours[best]:.3f} {best.removeprefix(OURS).strip()} | **{speedup(row):.2f}** | "
            f"{_bar(row)} | "
            f"{len(tuned)} of {len(rows)} | {before:.0f}, {after:.0f} | "
            f"{1e-3 * before / theirs[first]:.0%}, {1e-3 * after / ours[best]:.0%} | "
            f"{_difference(row)} | {_seconds(row['jobs_s'])} | {row['found_s']:.2f} | "
            f"{row['run'] + 1} |"
        )
    return [*lines, ""]


def _called(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the kernels that a compiled graph calls. A tuned convolution with gates
    replaces the same convolution without them."""
    rows = report["rows"]
    gated = [each for each in rows if GATED in each["shape"] and each["by"] == "tuned"]
    replaced = [(each["names"], each["shape"].replace(GATED, "")) for each in gated]
    return [
        each
        for each in rows
        if each in gated
        or (GATED not in each["shape"] and (each["names"], each["shape"]) not in replaced)
    ]


def _bar(row: dict[str, Any]) -> str:
    if row["device"] == "cpu":
        return "1"
    if "length" in row:
        return f"{TRANSFORMERS_BAR}"
    return f"{BARS.get((row['network'], row['batch']), 0.99)}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def _difference(row: dict[str, Any]) -> str:
    """Return the error of the output, relative to its largest value, or "" if the row has none.

    The oldest rows have no error: their networks' weights hid a layer's error in the output.
    """
    difference = row.get("difference")
    return "" if difference is None else f"{difference:.1e}"


def _every_way(result: dict[str, Any]) -> list[str]:
    lines = ["## Every way, ms", ""]
    for row in result["rows"]:
        if "error" not in row:
            said = ", ".join(f"{name} {ms:.3f}" for name, ms in row["ms"].items())
            lines.append(f"- {row['name']}: {said}")
    return lines
