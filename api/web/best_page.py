"""What the page of a best shows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Engine
from starlette.requests import Request

from api.schemas.best import BestView
from api.web.charts import Bar, bars, roofline
from api.web.pages import number
from api.web.snippets import service_url, snippets
from api.web.source import coloured
from db import artifacts
from db.best import Best
from templates.workload import Workload


def best_context(
    engine: Engine, request: Request, workload: Workload, found: list[Best]
) -> dict[str, Any]:
    """``found``: the bests of this workload on the devices asked for, fastest first."""
    best = found[0]
    view = BestView.of(best.workload, found)
    service = service_url(request)
    library = view.artifacts.library
    texts = snippets(
        service,
        workload,
        view.device.model_dump(),
        None if library is None else library.model_dump(),
    )
    source = None
    if "source" in best.artifacts:
        file = artifacts.get(engine, best.artifacts["source"])
        source = coloured(file.content.decode("utf-8", "replace"), file.media_type)
    return {
        "best": best,
        "view": view,
        "found": found,
        "source": source,
        "snippets": [
            (name, text, coloured(text, "shell" if name == "curl" else "python").html)
            for name, text in texts.items()
        ],
        "baselines": bars(_bars(best)),
        "roof": roofline(_limits(engine, best), workload.flops, workload.bytes, _times(best)),
    }


def _limits(engine: Engine, best: Best) -> dict[str, Any]:
    """The device's as they were measured when this was tuned; each start of a worker measures a
    CPU's anew."""
    if "manifest" not in best.artifacts:
        return best.device.limits
    manifest = json.loads(artifacts.get(engine, best.artifacts["manifest"]).content)
    limits: dict[str, Any] = manifest.get("device", {}).get("limits", best.device.limits)
    return limits


def _bars(best: Best) -> list[Bar]:
    rows = [Bar("best", "best", best.time_us, f"{number(best.time_us)} µs")]
    for each in best.baselines:
        time, reason = each.get("time_us"), each.get("error")
        figure = "–" if time is None else f"{number(time)} µs · {number(each['speedup'], 2)}×"
        rows.append(
            Bar(
                each["name"],
                "failed" if reason else "peer",
                time,
                f"{figure} (failed)" if reason and time is None else figure,
                title=reason or "",
            )
        )
    return rows


def _times(best: Best) -> Mapping[str, float]:
    """The best and the nearest two that it is compared with: more points would hide each other."""
    fair = [each for each in best.baselines if each.get("time_us") and not each.get("error")]
    nearest = sorted(fair, key=lambda each: float(each["time_us"]))[:2]
    return {"best": best.time_us} | {each["name"]: each["time_us"] for each in nearest}
