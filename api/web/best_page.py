"""Contents of the page of a best."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Engine
from starlette.requests import Request

from api.schemas.best import BestView
from api.web.charts import Bar, bars, roofline
from api.web.snippets import call_arguments, output_names, service_url, snippets
from api.web.source import highlighted
from db.read.in_words import noise_in_words, number, peer_in_words, roofline_in_words
from db.results import artifacts
from db.results.best import Best
from db.results.fastest import own_time
from templates.workload import Workload


def best_context(
    engine: Engine,
    request: Request,
    workload: Workload,
    found: list[Best],
    narrowed: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what the page of a best shows.

    ``found`` are the bests of this workload on the requested devices, fastest first and not empty.
    ``narrowed`` has the other filters of the request: templates, threads, parallel."""
    best = found[0]
    view = BestView.of(best.workload, found)
    service = service_url(request)
    library = view.artifacts.library
    texts = snippets(
        service,
        workload,
        view.device.model_dump(),
        None if library is None else library.model_dump(),
        narrowed,
    )
    source = None
    if "source" in best.artifacts:
        file = artifacts.get(engine, best.artifacts["source"])
        source = highlighted(file.content.decode("utf-8", "replace"), file.media_type)
    return {
        "best": best,
        "view": view,
        "found": found,
        "source": source,
        "snippets": [
            (name, text, highlighted(text, "shell" if name == "curl" else "python").html)
            for name, text in texts.items()
        ],
        "baselines": bars(_bars(best)),
        "call": f"kernel({call_arguments(workload)}, out={_out(workload)})",
        "called": bool(best.timing.get("call")),
        "earlier": sorted(
            {row["measured_at"][:10] for row in best.baselines if "measured_at" in row}
        ),
        "peer": peer_in_words(best.timing, best.time_us, best.baselines),
        "noise": noise_in_words(best.timing),
        "roofline_said": roofline_in_words(best.roofline, best.device.name),
        "roof": roofline(_limits(engine, best), workload.flops, workload.bytes, _times(best)),
    }


def _out(workload: Workload) -> str:
    outputs = output_names(workload)
    return outputs if len(workload.outputs) == 1 else f"({outputs})"


def _limits(engine: Engine, best: Best) -> dict[str, Any]:
    """Return the device's limits as they were measured when this best was tuned.

    The stored limits may be newer: each start of a worker measures a CPU's limits again."""
    if "manifest" not in best.artifacts:
        return best.device.limits
    manifest = json.loads(artifacts.get(engine, best.artifacts["manifest"]).content)
    limits: dict[str, Any] = manifest.get("device", {}).get("limits", best.device.limits)
    return limits


def _bars(best: Best) -> list[Bar]:
    rows = [Bar("ours", "best", best.time_us, _us(best.time_us))]
    call = best.timing.get("call")
    if call:
        rows.append(
            Bar("ours, called from Python", "best", call["median_us"], _us(call["median_us"]))
        )
    return rows + [_bar(best, each) for each in best.baselines]


def _bar(best: Best, row: Mapping[str, Any]) -> Bar:
    """Return the bar of a baseline, with its time as a multiple of ours at the same level."""
    time, reason = row.get("time_us"), row.get("error") or ""
    called = best.timing.get("call") and row.get("level") == "call"
    figure = "–"
    if time is not None:
        times = time / own_time(best.timing, best.time_us, row)
        figure = f"{_us(time)} · {number(times, 2)}×"
    elif reason:
        figure = "– (failed)"
    name = f"{row['name']}, called" if called else row["name"]
    earlier = f"timed {row['measured_at'][:10]}" if row.get("measured_at") else ""
    return Bar(name, "failed" if reason else "peer", time, figure, title=reason or earlier)


def _us(time: float) -> str:
    return f"{number(time)} µs"


def _times(best: Best) -> Mapping[str, float]:
    """Return our time and those of the two fastest baselines, in µs, by name.

    More points would hide each other."""
    fair = [each for each in best.baselines if each.get("time_us") and not each.get("error")]
    nearest = sorted(fair, key=lambda each: float(each["time_us"]))[:2]
    return {"ours": best.time_us} | {each["name"]: each["time_us"] for each in nearest}
