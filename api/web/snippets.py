"""Code that uses a best, to be pasted into a program or a shell."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from api.schemas.common import in_query
from templates.workload import Workload

_HOST = re.compile(r"[A-Za-z0-9.-]+(:\d{1,5})?|\[[0-9a-fA-F:]+\](:\d{1,5})?")


def service_url(request: Request) -> str:
    """Return the address at which the reader's browser found the service, for the snippets."""
    host = request.headers.get("host", "")
    scheme = "https" if request.url.scheme == "https" else "http"
    return f"{scheme}://{host}" if _HOST.fullmatch(host) else "http://localhost:8000"


def snippets(
    service: str,
    workload: Workload,
    device: Mapping[str, Any],
    library: Mapping[str, Any] | None,
    narrowed: Mapping[str, Any],
) -> dict[str, str]:
    """Return complete programs by name: Python, PyTorch and curl.

    The Python program uses NumPy's arrays, so it is left out for a best on a GPU. ``narrowed`` has
    the other filters of the request: templates, threads, parallel."""
    shape = workload.explicit_fields
    asked = {**shape, "target": device["kind"], **narrowed}
    arguments = ", ".join(
        f"{name}={value if isinstance(value, bool) else json.dumps(value)}"
        for name, value in asked.items()
    )
    call = f'client.best("{workload.operator}", {arguments})'
    found = {} if device["kind"] == "cuda" else {"Python": _numpy(service, call, workload)}
    found["PyTorch"] = _torch(service, call, workload, device["kind"])
    found["curl"] = _curl(service, workload.operator, asked, library)
    return found


def call_arguments(workload: Workload) -> str:
    """Return the arguments of a call, as in ``x, w``."""
    return ", ".join(argument.symbol for argument in workload.inputs)


def output_names(workload: Workload) -> str:
    """Return the names of what a call returns: ``y``, or several, separated by commas."""
    return ", ".join(output.symbol for output in workload.outputs)


def _call_and_print(workload: Workload) -> str:
    shown = ", ".join(f"{output.symbol}.shape" for output in workload.outputs)
    dtype = f"{workload.outputs[0].symbol}.dtype"
    return f"""\
{output_names(workload)} = kernel({call_arguments(workload)})
print({shown}, {dtype}, best.time_us, "µs on", best.device.name)
"""


def _numpy(service: str, call: str, workload: Workload) -> str:
    apart = workload.dtype == "bfloat16"  # NumPy itself lacks it
    imports = "import ml_dtypes\n" if apart else ""
    dtype = f"ml_dtypes.{workload.dtype}" if apart else json.dumps(workload.dtype)
    drawn = "\n".join(
        f"{each.symbol} = np.random.default_rng({seed}).standard_normal({_tuple(each.shape)})"
        f".astype({dtype})"
        for seed, each in enumerate(workload.inputs)
    )
    return f"""\
{imports}import numpy as np
from tuner.client import Client

client = Client({json.dumps(service)})
best = {call}
kernel = client.load(best)  # downloaded once, its signature checked

{drawn}
{_call_and_print(workload)}"""


def _torch(service: str, call: str, workload: Workload, kind: str) -> str:
    drawn = "\n".join(
        f"{each.symbol} = torch.randn({_tuple(each.shape)}, dtype=torch.{each.dtype}, "
        f"device={json.dumps(kind)})"
        for each in workload.inputs
    )
    return f"""\
import torch
from tuner.client import Client

client = Client({json.dumps(service)})
best = {call}
kernel = client.load(best)  # on a GPU it runs on PyTorch's current stream

{drawn}
{_call_and_print(workload)}"""


def _curl(
    service: str, operator: str, asked: Mapping[str, Any], library: Mapping[str, Any] | None
) -> str:
    best = shlex.quote(f"{service}/best/{operator}?{in_query(asked)}")
    text = f"curl -fsS {best}\n"
    if library is not None:
        text += (
            f"curl -fsS -o {operator}.so {shlex.quote(service + library['url'])}\n"
            f'echo "{library["sha256"]}  {operator}.so" | sha256sum -c\n'
        )
    return text


def _tuple(shape: tuple[int, ...]) -> str:
    return str(shape[0]) if len(shape) == 1 else str(shape)
