"""Hooks of schemathesis: they adapt its data to this service and add checks to its own.

Schemathesis imports this module (see schemathesis.toml) in the process that sends the requests.
"""

import gc
import hashlib
import json
import math
import re
from typing import Any

import schemathesis
from schemathesis import Case, CheckContext, HookContext, Response

from api.schemas.records import RECORD_EXAMPLE
from templates import operator, operators
from templates.conv1d.combinations import SMOOTH
from templates.dtypes import LEAST_ERROR

gc.set_threshold(20_000)  # Python's default spends a fifth of the time on collecting garbage
NAMES = [each.name for each in operators()]
APART = ("F", "groups", "stride", "residual")
"""Fields of conv1d that must have their default in direction ``backward``."""
CURSOR = (r"cursor was not made by this list",)
ORDER = (
    r"Idempotency-Key was used for another order",
    r"templates can't be chosen for metaschedule",
    r"templates names .*, but \w+ on (cpu|cuda) has no such template",
)
REASONS: dict[str, tuple[str, ...]] = {
    "GET /jobs": CURSOR,
    "GET /jobs/{job_id}/trials": CURSOR,
    "GET /ladders/{operator}": CURSOR,
    "GET /models": CURSOR,
    "GET /jobs/{job_id}/events": (r"the job has \d+ trials and is in its stage",),
    "GET /records": (r"of must be bests for metaschedule",),
    "POST /jobs": ORDER,
    "POST /models": ORDER,
}
"""Reasons for which an operation may refuse data that fits its schema, as patterns of the answer.

No schema can express them. schemathesis.toml allows the status for these operations and says why.
"""


@schemathesis.serializer("application/x-ndjson")
def lines(context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.hook
def map_case(context: HookContext, case: Case) -> Case:
    """Change data that fits the schema so that it also keeps the limits between fields.

    The schema can't express these, and without the change nearly all data would be refused.
    """
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return case
    path, body = case.operation.path, case.body
    if path.startswith("/best/"):
        case.query = within_limits({name: number(each) for name, each in case.query.items()})
    elif path == "/records" and isinstance(body, str):
        case.body = "\n".join([json.dumps(RECORD_EXAMPLE)] * (1 + len(body) % 3))
    elif path == "/records" and isinstance(body, dict):
        case.body = of_this_release(whole(body))
    elif isinstance(body, dict) and "workloads" in body:
        case.body = of_known_templates(whole(body))
    elif isinstance(body, dict) and "workload" in body:
        body = whole(body)
        case.body = body | {"workload": within_limits(body["workload"])}
    return case


@schemathesis.hook
def before_call(context: HookContext, case: Case, kwargs: dict[str, Any]) -> None:
    """Give each order of a model its own Idempotency-Key.

    Nearly all orders come with the key of the example, which a job has used already.
    """
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if case.operation.label == "POST /models" and "Idempotency-Key" in (case.headers or {}):
        said = json.dumps(case.body, sort_keys=True, default=str).encode()
        case.headers["Idempotency-Key"] = hashlib.sha256(said).hexdigest()


def number(text: Any) -> Any:
    """Return a query's value as a number: some phases write numbers, others digits."""
    try:
        return whole(json.loads(str(text)))
    except ValueError:
        return text


def whole(value: Any) -> Any:
    """Return the value with floats such as 17.0 as integers, at any depth.

    To JSON Schema 17.0 is an integer; the service refuses it as a length.
    """
    if isinstance(value, dict):
        return {name: whole(each) for name, each in value.items()}
    if isinstance(value, list):
        return [whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def within_limits(shape: dict[str, Any]) -> dict[str, Any]:
    """Return the shape within the limits between its fields, without empty values."""
    shape = {name: value for name, value in shape.items() if value not in (None, "")}
    if "N" in shape:
        shape = signals(shape)
    elif "B" in shape:
        shape = windowed(shape)
        while math.prod(shape[name] for name in "BCHW") > 2**20:
            largest = max("BCHW", key=lambda name: int(shape[name]))
            shape[largest] //= 2
    least = LEAST_ERROR.get(shape.get("dtype"), 0.0)
    if shape.get("max_error", "") != "":
        shape["max_error"] = max(shape["max_error"], least)
    return shape


def of_known_templates(model: dict[str, Any]) -> dict[str, Any]:
    """Return the model with workloads within limits and only templates that all operators have."""
    layers = [each | {"workload": within_limits(each["workload"])} for each in model["workloads"]]
    named = {"templates": ["channels"]} if model.get("templates") else {}
    return model | {"workloads": layers} | named


def signals(shape: dict[str, Any]) -> dict[str, Any]:
    """Return a shape of conv1d within limits.

    It has few signals, a kernel no longer than the signal, and either a mode or a padding.
    """
    several = {"B", "C", "F"} & {*shape}
    shape["M"] = min(shape["M"], 2**10 if several else 2**22)  # 2 * L * N is at most 2^40
    shape["N"] = min(shape["M"], shape["N"])
    shape |= {name: min(shape[name], 8) for name in ("B", "C") if name in shape}
    C = shape.get("C", 1)
    if "F" in shape:
        shape["F"] = C * (1 + shape["F"] % 3)
    if "groups" in shape:
        shape["groups"] = 1 if shape["groups"] % 2 else C
    if "padding" in shape:
        shape["padding"] = "3,3" if isinstance(shape["padding"], str) else [3, 3]
        shape.pop("mode", None)
    if shape.get("gated"):
        kept = ("M", "N", "B", "C", "kind", "dtype", "max_error", "bias", "gated")
        shape = {name: shape[name] for name in kept if name in shape}
        shape |= {"layout": "NWC", "mode": "causal"}
    if shape.get("direction") == "backward":
        shape = smooth(shape)
    return {name: each for name, each in shape.items() if name != "dilation"}


def smooth(shape: dict[str, Any]) -> dict[str, Any]:
    """Return a shape for which one program computes all gradients.

    Its channels are separate, and its activation has a derivative without jumps.
    """
    apart = {name: each for name, each in shape.items() if name not in APART}
    if apart.get("activation", SMOOTH[0]) not in SMOOTH:
        apart["activation"] = SMOOTH[0]
    return apart


def windowed(shape: dict[str, Any]) -> dict[str, Any]:
    """Return a shape of depthwise_conv2d within limits.

    The kernel is K, or KH and KW, and spans no more than the smallest input with its padding.
    """
    if "K" in shape or not {"KH", "KW"} <= {*shape}:
        shape = {"K": 3} | {name: each for name, each in shape.items() if name not in ("KH", "KW")}
    if "padding" in shape:
        shape["padding"] = "3,3,3,3" if isinstance(shape["padding"], str) else [3] * 4
        shape |= {name: min(shape[name], 7) for name in ("K", "KH", "KW") if name in shape}
    if "multiplier" in shape:
        shape["multiplier"] = min(shape["multiplier"], 2)
    return {name: each for name, each in shape.items() if name != "dilation"}


def of_this_release(line: dict[str, Any]) -> dict[str, Any]:
    """Return the record with a shape, a template and a version that this release has.

    Its other fields stay.
    """
    if "tuning_record" in line:
        ours = line["convtune"]
        return line | {"convtune": of_this_release(ours) if isinstance(ours, dict) else ours}
    shape = operator(NAMES[0]).example
    if "input" in line:
        return line | {"input": ["llvm", f"{NAMES[0]}/any", list(shape.items())]}
    if "results" in line:
        return line | {"results": [{"operator": NAMES[0], "workload": shape}]}
    name = line["operator"] if line["operator"] in NAMES else NAMES[len(line["operator"]) % 2]
    chosen = next(each for each in operator(name).templates if each.kind == line["target"])
    return line | {
        "operator": name,
        "workload": operator(name).example,
        "template": chosen.name,
        "version": chosen.version,
        "config": {"template": chosen.name, "threads": len(line["config"])},
    }


@schemathesis.check
def refuses_what_fits_for_a_reason(context: CheckContext, response: Response, case: Case) -> None:
    """Fail if data that fits the schema is refused for a reason that is not in REASONS."""
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if response.status_code not in {400, 422}:
        return
    document = response.json()
    faults = [f"{each['field']} {each['message']}" for each in document.get("errors", [])]
    for said in faults or [document["detail"]]:
        known = REASONS.get(case.operation.label, ())
        assert any(re.match(start, said) for start in known), f"refused what fits: {said}"


@schemathesis.check
class EveryOperationAnswers:
    """Fail if an operation has never answered with success: then little of it was tested."""

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self.answered: set[str] = set()

    def after_response(self, context: CheckContext, response: Response, case: Case) -> None:
        self.asked.add(case.operation.label)
        if 200 <= response.status_code < 300:
            self.answered.add(case.operation.label)

    def after_run(self, context: CheckContext) -> None:
        refused = sorted(self.asked - self.answered)
        assert not refused, f"never answered with success: {', '.join(refused)}"
