"""OpenAPI links: which requests an answer leads to, so that a program need not guess.

A link leads nowhere if a best lacks that artifact, or if there is no job yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from db.contract.best import ArtifactLinks
from templates import operators


@dataclass(frozen=True)
class _Link:
    """A request, and the places in the answer that have its parameters or its body."""

    method: str
    path: str
    parameters: dict[str, str] = field(default_factory=dict)
    body: str | None = None

    def document(self, paths: dict[str, Any]) -> dict[str, Any]:
        said: dict[str, Any] = {
            "operationId": paths[self.path][self.method]["operationId"],
            "parameters": {name: _from(place) for name, place in self.parameters.items()},
        }
        return said if self.body is None else {**said, "requestBody": _from(self.body)}


def _from(place: str) -> str:
    return f"$response.body#/{place}"


def _about_job(place: str) -> dict[str, _Link]:
    """Return the links of an answer that has a job's id at ``place``, as in ``jobs/0/id``."""
    job = {"job_id": place}
    return {
        "job": _Link("get", "/jobs/{job_id}", job),
        "trials": _Link("get", "/jobs/{job_id}/trials", job),
        "events": _Link("get", "/jobs/{job_id}/events", job),
        "cancel": _Link("post", "/jobs/{job_id}/cancel", job),
        "records": _Link("get", "/records", {"job": place}),
    }


_JOB = _about_job("id")
_MODEL = {
    "model": _Link("get", "/models/{model_id}", {"model_id": "id"}),
    "cancel": _Link("post", "/models/{model_id}/cancel", {"model_id": "id"}),
    "job": _Link("get", "/jobs/{job_id}", {"job_id": "layers/0/job"}),
}
_BEST = {
    "200": {
        **{
            kind: _Link("get", "/artifacts/{sha256}", {"sha256": f"artifacts/{kind}/sha256"})
            for kind in ArtifactLinks.model_fields
        },
        "job": _Link("get", "/jobs/{job_id}", {"job_id": "job"}),
    },
    "404": {
        "tune": _Link("post", "/jobs", body="tune/body"),
        "job": _Link("get", "/jobs/{job_id}", {"job_id": "job/id"}),
    },
}
_LINKS: dict[tuple[str, str, str], dict[str, _Link]] = {
    ("post", "/jobs", "200"): _JOB,
    ("post", "/jobs", "201"): _JOB,
    ("post", "/jobs/nearest", "200"): _JOB,
    ("post", "/jobs/nearest", "201"): _JOB,
    ("get", "/jobs/{job_id}", "200"): _JOB,
    ("post", "/jobs/{job_id}/cancel", "202"): _JOB,
    ("post", "/models", "200"): _MODEL,
    ("post", "/models", "201"): _MODEL,
    ("get", "/models/{model_id}", "200"): _MODEL,
    ("post", "/models/{model_id}/cancel", "202"): _MODEL,
    ("post", "/records", "201"): _about_job("jobs/0/id"),
    ("get", "/operators", "200"): {
        "operator": _Link("get", "/operators/{name}", {"name": "items/0/name"})
    },
    ("get", "/operators/{name}", "200"): {
        "ladders": _Link("get", "/ladders/{operator}", {"operator": "name"})
    },
} | {
    ("get", f"/best/{operator.name}", status): links
    for operator in operators()
    for status, links in _BEST.items()
}


def add_links(paths: dict[str, Any]) -> None:
    """Write the links into the paths of the OpenAPI document."""
    for (method, path, status), links in _LINKS.items():
        paths[path][method]["responses"][status]["links"] = {
            name: link.document(paths) for name, link in links.items()
        }
