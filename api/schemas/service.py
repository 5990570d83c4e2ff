"""The JSON of the service's probes, and of its index of routes."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Health(BaseModel):
    """The answer of a probe that succeeds."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"status": "ok"}]})

    status: Literal["ok"] = "ok"


class Index(BaseModel):
    """The service's version and its routes."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "service": "convtune",
                    "version": "0.1.0",
                    "routes": {"GET /jobs": "The jobs, newest first"},
                }
            ]
        }
    )

    service: str
    version: str
    routes: dict[str, str] = Field(description="what each route is for, by its method and path")
