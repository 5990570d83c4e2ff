"""What schemathesis has to know of this service, and what is checked beside its own checks.

Imported by schemathesis itself (schemathesis.toml), in the process that asks the service."""

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
from templates.conv1d.workload import SMOOTH
from templates.dtypes import LEAST_ERROR

gc.set_threshold(20_000)  # looking for garbage as often as Python does takes a fifth of its time
NAMES = [each.name for each in operators()]
APART = ("F", "groups", "stride", "residual")
"""Fields of conv1d that direction backward leaves at what they are if they are not given."""
CURSOR = (r"cursor was not made by this list",)
ORDER = (
    r"Idempotency-Key was used for another order",
    r"templates can't be chosen for metaschedule",
    r"templates has .*, which \w+ does not have on (cpu|cuda)",
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
"""Why data that fits the schema may be refused all the same: what no schema can say, as the answer
says it, by operation. schemathesis.toml admits the status there, and why it does."""


@schemathesis.serializer("application/x-ndjson")
def lines(context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.hook
def map_case(context: HookContext, case: Case) -> Case:
    """Of data that fits the schema, what is within the limits between fields, of which no schema
    knows: nearly all of it would be refused else."""
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
    """A key of each model's own: nearly all come with the example's, which a job has, too."""
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if case.operation.label == "POST /models" and "Idempotency-Key" in (case.headers or {}):
        said = json.dumps(case.body, sort_keys=True, default=str).encode()
        case.headers["Idempotency-Key"] = hashlib.sha256(said).hexdigest()


def number(text: Any) -> Any:
    """Of a query, where some phases write numbers and others digits."""
    try:
        return whole(json.loads(str(text)))
    except ValueError:
        return text


def whole(value: Any) -> Any:
    """Integers written as such: to JSON Schema 17.0 is one, to us a length that comes as one is a
    mistake."""
    if isinstance(value, dict):
        return {name: whole(each) for name, each in value.items()}
    if isinstance(value, list):
        return [whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def within_limits(shape: dict[str, Any]) -> dict[str, Any]:
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
    """Its workloads within limits, and those templates that each operator has."""
    layers = [each | {"workload": within_limits(each["workload"])} for each in model["workloads"]]
    named = {"templates": ["channels"]} if model.get("templates") else {}
    return model | {"workloads": layers} | named


def signals(shape: dict[str, Any]) -> dict[str, Any]:
    """Few of them, with a kernel no longer than the signal, in a mode or with a padding."""
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
    if shape.get("direction") == "backward":
        shape = smooth(shape)
    return {name: each for name, each in shape.items() if name != "dilation"}


def smooth(shape: dict[str, Any]) -> dict[str, Any]:
    """What one program has all gradients of: channels apart, an activation whose derivative does
    not jump."""
    apart = {name: each for name, each in shape.items() if name not in APART}
    if apart.get("activation", SMOOTH[0]) not in SMOOTH:
        apart["activation"] = SMOOTH[0]
    return apart


def windowed(shape: dict[str, Any]) -> dict[str, Any]:
    """A kernel in one of its two forms, which spans no more than the least input and padding."""
    if "K" in shape or not {"KH", "KW"} <= {*shape}:
        shape = {"K": 3} | {name: each for name, each in shape.items() if name not in ("KH", "KW")}
    if "padding" in shape:
        shape["padding"] = "3,3,3,3" if isinstance(shape["padding"], str) else [3] * 4
        shape |= {name: min(shape[name], 7) for name in ("K", "KH", "KW") if name in shape}
    if "multiplier" in shape:
        shape["multiplier"] = min(shape["multiplier"], 2)
    return {name: each for name, each in shape.items() if name != "dilation"}


def of_this_release(line: dict[str, Any]) -> dict[str, Any]:
    """A record that names a shape, a template and its version; what else it says stays."""
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
    """A run in which an operation only ever refused has tested little of it."""

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
