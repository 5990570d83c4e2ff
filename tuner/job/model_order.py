"""Building the order of a model (many workloads) from a caller's values, and checking it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from db.contract.model import LayerOrder, ModelOrder
from db.contract.order import Terms, terms_of
from db.contract.requests import ModelIn
from templates.errors import first_refused
from tuner.errors import BadOrder
from tuner.job.order import make_order, terms_as_json, workload_of
from tuner.plain import plain


def make_model_order(
    name: str, workloads: Sequence[Mapping[str, Any]], how: Terms, kind: str
) -> ModelOrder:
    """Return the order for these workloads on a kind of device.

    Each workload is a mapping ``{"operator", "workload", "calls"}``. Raises BadOrder, which names
    the field at fault, for example ``workloads.3.workload.M``.
    """
    body = plain({"name": name, "workloads": list(workloads)})
    try:
        sent = ModelIn.model_validate(body | terms_as_json(terms_of(how)))
    except ValidationError as error:
        raise BadOrder(*first_refused(error, ModelIn)) from error
    layers = []
    for place, each in enumerate(sent.workloads):
        try:
            workload = workload_of(each.operator, each.workload)
        except BadOrder as error:
            within = "" if error.field == "operator" else "workload."
            raise BadOrder(f"workloads.{place}.{within}{error.field}", error.why) from error
        layers.append(LayerOrder(make_order(workload, how, kind), each.calls))
    return ModelOrder.of(sent.name, layers)
