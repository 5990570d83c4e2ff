"""The JSON of an operator."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from api.schemas.non_null_schema import non_null_schema
from templates import Operator

_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "enum", "const")


class OperatorLinks(BaseModel):
    """URLs of the operator itself, and of the best for its example."""

    self: str
    best: str


class OperatorView(BaseModel):
    """An operator: the JSON Schema of its workloads, and its templates by kind of device."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "conv1d",
                    "summary": "1-D convolution or correlation",
                    "workload_schema": {"type": "object", "required": ["M", "N"]},
                    "limits": {"M": {"minimum": 1, "maximum": 16777216}},
                    "defaults": {"mode": "full", "max_error": 1e-5},
                    "example": {"M": 16384, "N": 32},
                    "templates": {"cpu": ["direct"], "cuda": ["direct"]},
                    "links": {"self": "/operators/conv1d", "best": "/best/conv1d?M=16384&N=32"},
                }
            ]
        }
    )

    name: str
    summary: str
    workload_schema: dict[str, Any] = Field(description="JSON Schema of a workload")
    limits: dict[str, dict[str, Any]] = Field(
        description="the limits of each field; a refusal names limits that involve several fields"
    )
    defaults: dict[str, Any] = Field(
        description="defaults of the fields that the example does not name"
    )
    example: dict[str, Any]
    templates: dict[str, list[str]] = Field(description="names of templates, by kind of device")
    links: OperatorLinks

    @classmethod
    def of(cls, operator: Operator, best: str) -> Self:
        """Return the view of an operator; ``best`` is the URL of the best for its example."""
        schema = operator.workload.model_json_schema()
        templates: dict[str, list[str]] = {}
        for template in operator.templates:
            templates.setdefault(template.kind, []).append(template.name)
        return cls(
            name=operator.name,
            summary=operator.summary,
            workload_schema=schema,
            limits={
                name: {key: said[key] for key in _LIMITS if key in said}
                for name, field in schema["properties"].items()
                for said in [non_null_schema(field)]
            },
            defaults=_defaults(operator),
            example=operator.example,
            templates=templates,
            links=OperatorLinks(self=f"/operators/{operator.name}", best=best),
        )


def _defaults(operator: Operator) -> dict[str, Any]:
    """Return the values that the example's workload has in fields that the example omits."""
    whole = operator.workload.model_validate(operator.example).model_dump()
    return {name: value for name, value in whole.items() if name not in operator.example}
