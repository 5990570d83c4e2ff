"""The census as a Markdown page and as JSON."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

BARS = {"depthwise_conv2d": 0.95, "conv1d": 0.90}
NAMES = {"depthwise_conv2d": "depthwise conv2d", "conv1d": "conv1d"}


def markdown(result: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    of_each = Counter(name.split()[0] for name in result["models"])
    left = sum(result["never_called"].values())
    lines = [
        "# Census",
        "",
        f"{result['date']}. {versions}. {result['seconds']} s.",
        "",
        f"    {result['command']}",
        "",
        f"{len(result['models'])} public models ("
        + ", ".join(f"{count} of {name}" for name, count in of_each.items())
        + ") are built from random weights and called once, with one image, one text or some "
        "seconds of sound. Layers of the same parameters and the same input shape are one; a "
        "depthwise conv2d has as many groups as input channels. Accepted are those that "
        "`Conv1d.of` and `DepthwiseConv2d.of` of `tuner.torch.modules` take in every model that "
        "has them.",
        "",
        "| operator | unique layers | workloads | share | wanted | accepted by the modules |",
        "|---|---|---|---|---|---|",
    ]
    for operator, each in result["operators"].items():
        share = f"{each['share']:.1%}" if each["unique"] else "–"
        bar = f"at least {BARS[operator]:.0%}"
        numbers = f"{each['unique']} | {each['workloads']} | {share} | {bar} | {each['accepted']}"
        lines.append(f"| {NAMES[operator]} | {numbers} |")
    lines += [
        "",
        f"Besides, {result['transposed_conv1d']} unique transposed conv1d, which are no operator "
        f"here; and {left} layers, not necessarily unique, that the calls did not reach.",
        "",
        "## Layers that are no workload",
        "",
        "| operator | reason | layers | example | in |",
        "|---|---|---|---|---|",
    ]
    odd = [each for each in result["layers"] if "reason" in each]
    lines += _grouped(result, ((each["reason"], each) for each in odd), with_message=True)
    lines += [
        "",
        "## Layers that the modules refuse",
        "",
        "| operator | reason | layers | example | in |",
        "|---|---|---|---|---|",
    ]
    layers = (each for each in result["layers"] if "refused" in each)
    lines += _grouped(result, ((why, each) for each in layers for why in each["refused"]))
    lines += ["", "## Models that are left out", ""]
    lines += [f"- {skip(each)}" for each in (result["missing"] | result["skipped"]).items()]
    if not result["missing"] | result["skipped"]:
        lines.append("None.")
    return "\n".join([*lines, ""])


def _grouped(
    result: dict[str, Any], found: Iterable[tuple[str, dict[str, Any]]], with_message: bool = False
) -> list[str]:
    groups = defaultdict(list)
    for reason, layer in found:
        groups[layer["operator"], reason].append(layer)
    rows = []
    for (operator, reason), layers in sorted(groups.items(), key=lambda each: -len(each[1])):
        first = layers[0]
        message = first["message"] if with_message else ""
        why = f"{reason}: {message}" if message else reason
        model = result["models"][first["models"][0]]
        rows.append(f"| {NAMES[operator]} | {why} | {len(layers)} | {first['text']} | {model} |")
    return rows


def skip(each: tuple[str, str]) -> str:
    return f"{each[0]}: {short(each[1])}"


def short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 160 else f"{words[:160]}…"


def compact(result: dict[str, Any]) -> str:
    """Return a result as JSON with one line for each layer."""
    head = json.dumps(result | {"layers": []}, indent=1).removesuffix("[]\n}")
    layers = ({name: each[name] for name in each if name != "text"} for each in result["layers"])
    return head + "[\n" + ",\n".join(json.dumps(each) for each in layers) + "\n]\n}\n"
