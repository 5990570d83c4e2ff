"""The workloads of a model, read from a file or captured from the PyTorch model itself."""

from __future__ import annotations

import json
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from templates.records.members import DuplicateMember, unique_members
from tuner.cli.common import say
from tuner.errors import BadOrder, MissingRuntime, UnusableFile, UnusableModel

Dtype = StrEnum("Dtype", ["float32", "float16", "bfloat16"])
Mode = StrEnum("Mode", ["inference", "training"])
Layout = StrEnum("Layout", {"NCHW": "NCHW", "NHWC": "NHWC", "NCW": "NCW", "NWC": "NWC"})

_FORM = (
    'write a list as POST /models takes it: [{"operator": "conv1d", '
    '"workload": {"M": 16384, "N": 32}, "calls": 3}]'
)


def name_and_workloads(
    layers: str,
    batch: int | None,
    dtype: Dtype | None,
    layout: Layout | None,
    shape: str | None,
    mode: Mode | None = None,
) -> tuple[str, list[dict[str, Any]]]:
    """Return a name and the workloads of ``layers``, the file or model that the user named.

    The name is a file's without its suffix, or the model's without ``timm:``. A model, given as
    ``timm:NAME`` or ``MODULE:CALLABLE``, is built and called. ``shape`` is the shape of its input
    without the batch, for example ``3x224x224``. Raises UnusableFile, UnusableModel,
    MissingRuntime, and BadOrder for an option that does not fit.
    """
    if ":" in layers and not Path(layers).exists():
        return layers.removeprefix("timm:"), _capture(layers, batch, dtype, layout, shape, mode)
    said = {"batch": batch, "dtype": dtype, "layout": layout, "input": shape, "mode": mode}
    for name, value in said.items():
        if value is not None:
            raise BadOrder(name, f"a file names all shapes itself; leave --{name} out")
    return Path(layers).stem, read_workloads(Path(layers))


def read_workloads(path: Path) -> list[dict[str, Any]]:
    """Read a JSON file with a list of workloads, which are not checked yet. Raises UnusableFile."""
    try:
        found = json.loads(path.read_bytes(), object_pairs_hook=unique_members)
    except OSError as error:
        raise UnusableFile(path, error.strerror or str(error)) from error
    except DuplicateMember as error:
        raise UnusableFile(path, str(error)) from error
    except (ValueError, RecursionError) as error:
        raise UnusableFile(path, f"is no JSON: {error}; {_FORM}") from error
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise UnusableFile(path, f"is no list of workloads; {_FORM}")
    return found


def _capture(
    name: str,
    batch: int | None,
    dtype: Dtype | None,
    layout: Layout | None,
    shape: str | None,
    mode: Mode | None,
) -> list[dict[str, Any]]:
    if find_spec("torch") is None:
        raise MissingRuntime(
            "PyTorch, which builds a model, is not installed",
            "pip install torch, or list the layers in a file",
        )
    from tuner.torch.model.named_models import workloads_of

    sizes = None if shape is None else _sizes(shape)
    found = workloads_of(
        name,
        batch or 1,
        dtype or Dtype.float32,
        layout,
        sizes,
        "training" if mode == Mode.training else "inference",
    )
    orders = []
    for each in found:
        if each.workload is None:
            say(f"{', '.join(each.names)}: left out, {each.reason}")
        else:
            orders.append(each.order)
    if not orders:
        raise UnusableModel(name, "none of its layers can be tuned")
    say(f"{name}: {len(orders)} workloads in {sum(each['calls'] for each in orders)} calls")
    return orders


def _sizes(shape: str) -> tuple[int, ...]:
    parts = shape.split("x")
    if not all(part.isdecimal() and int(part) for part in parts) or len(parts) not in (2, 3):
        raise BadOrder(
            "input",
            f"{shape!r} is no input shape; give CxHxW or CxM, without the batch, as 3x224x224",
        )
    return tuple(map(int, parts))
