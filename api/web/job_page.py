"""Contents of the page of a job."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine

from api.web import curves, knobs
from api.web.charts import Bar, bars
from api.web.pages import config_text
from db import queue
from db.contract.order import changed_terms
from db.queue import Job
from db.queue.waiting import devices_and_waiting_reasons
from db.read import views
from db.read.in_words import noise_in_words, number, peer_in_words
from db.results import best

KNOB_SAMPLES = 4000
MAX_SIMILAR_JOBS = 20
"""How many jobs of the same workload are offered for a comparison."""
TERMS_SHOWN_ALWAYS = ("target", "trials", "search")
"""Terms that this page and a model's always show in another place, even at their default."""


def job_context(engine: Engine, job: Job) -> dict[str, Any]:
    """Return what the page shows of a job, except for the table of its trials."""
    [(device, waiting)] = devices_and_waiting_reasons(engine, [job])
    points = views.points(engine, job.id)
    steps = curves.steps(points)
    configs = views.configs(engine, job.id, [point.number for point in steps])
    started = started_at(job)
    samples = views.samples(engine, job.id, KNOB_SAMPLES) if points else []
    counts = curves.counted(points)
    return {
        "job": job,
        "ordered": {
            name: value
            for name, value in changed_terms(job).items()
            if name not in TERMS_SHOWN_ALWAYS
        },
        "waiting": waiting,
        "device": device,
        "last": points[-1].number if points else 0,
        "measured": max(len(points), job.trials_measured),
        "steps": [
            {"point": p, "seconds": p.created_at - started, "config": configs.get(p.number)}
            for p in reversed(steps)
        ],
        "outcomes": bars(
            [
                Bar(
                    status.replace("_", " "),
                    "ok" if status == "ok" else "failed",
                    count,
                    f"{count:,}",
                )
                for status, count in counts
            ]
        ),
        "failed": sum(count for status, count in counts if status != "ok"),
        "knobs": [_with_bars(knob) for knob in knobs.knob_tables(samples)],
        "sampled": len(samples),
        **_outcome(engine, job),
    }


def comparison(engine: Engine, job: Job, other_id: str) -> dict[str, Any]:
    """Return the other job, the jobs to choose from, and a row for each of the two jobs.

    ``other_id`` is empty if no other job is chosen. The jobs to choose from are the newest of the
    same workload. Raise NotFound."""
    other = queue.get(engine, other_id) if other_id else None
    similar = views.jobs_alike(engine, job, MAX_SIMILAR_JOBS)
    if other is not None and other.id not in {each.id for each in similar}:
        similar.insert(0, other)
    compared = [] if other is None else [_in_brief(engine, each) for each in (job, other)]
    return {"other": other, "similar": similar, "compared": compared}


def _in_brief(engine: Engine, job: Job) -> dict[str, Any]:
    """Return a job's row in a comparison. ``found_after``: the seconds until it found its best."""
    points = views.points(engine, job.id)
    last = next(reversed(curves.steps(points)), None)
    return {
        "job": job,
        "last": last,
        "found_after": last.created_at - started_at(job) if last else None,
        "measured": max(len(points), job.trials_measured),
    }


def _outcome(engine: Engine, job: Job) -> dict[str, Any]:
    """Return the stored best of a succeeded job's workload on its device, and the peer beside it.

    If the best is this job's own, its noise and the finalists of its last round are returned, too.
    """
    stored = []
    if job.state == "succeeded" and job.device_id is not None:
        stored = best.bests_on_device(engine, job.workload_key, job.device_id)
    if not stored:
        return {"stored": None, "peer": None, "noise": None, "finalists": []}
    found = next((each for each in stored if each.job_id == job.id), stored[0])
    ours = found.job_id == job.id
    finalists = found.timing.get("finalists", []) if ours else []
    return {
        "stored": found,
        "peer": peer_in_words(found.timing, found.time_us, found.baselines),
        "noise": noise_in_words(found.timing) if ours else None,
        "finalists": [
            {
                **each,
                "times": each["median_us"] / finalists[0]["median_us"],
                "won": each["config"] == found.config,
            }
            for each in finalists
        ],
    }


def curve(engine: Engine, job_id: str) -> dict[str, Any]:
    """Return the job's thinned trials as columns, with the configurations shown at the pointer.

    Raise NotFound."""
    job = queue.get(engine, job_id)
    points = views.points(engine, job_id)
    kept = curves.thinned(points)
    found = views.configs(engine, job_id, [point.number for point in kept])
    return {
        **curves.columns(kept, started_at(job)),
        "config": [config_text(found.get(point.number)) for point in kept],
        "trials": len(points),
        "ended": job.ended,
    }


def started_at(job: Job) -> float:
    """Return when the job started, or was ordered if it has not started, in s since 1970."""
    return (job.started_at or job.created_at).timestamp()


def _with_bars(knob: dict[str, Any]) -> dict[str, Any]:
    """Return a knob's table with a bar for each value: its best time, and a mark at the median."""
    given = [
        Bar(
            f"{row['value']}",
            "ok" if row["best"] is not None else "failed",
            row["best"],
            (f"{number(row['best'])} µs" if row["best"] is not None else "all failed")
            + (f" in {row['trials']} trials" if knob["name"] == knobs.TEMPLATE else ""),
            title=f"{row['trials']} trials, {row['failed']} failed, "
            f"median {number(row['median'])} µs",
            mark=row["median"],
        )
        for row in knob["rows"]
    ]
    return {**knob, "bars": bars(given)}
