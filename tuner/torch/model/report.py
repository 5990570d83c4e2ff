"""The report of ``optimize_``: what computes each layer of a model, and how fast."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from templates.workload import Workload
from tuner.client.pytorch_comparison import fastest_eager_pytorch
from tuner.torch.lookup.source_lookup import Found
from tuner.torch.model.picture import picture
from tuner.torch.model.survey import Mode, ModelLayer

_WHOLE = (
    "mode", "before_ms", "after_ms", "error", "variation", "training", "tuned", "expected_gain_us",
)  # fmt: skip


@dataclass
class Row:
    """A layer on one shape of its input.

    ``names`` are those of the layer in the model, and ``calls`` counts its calls with this shape in
    one call of the model. In mode "training" gradients have rows of their own, whose ``shape``
    names the direction.

    ``by`` says what computes it. If that is PyTorch, ``reason`` says why; if a kernel,
    ``template`` is the kernel's, and ``takes_in`` has the classes of the modules that it computes
    too. ``apart`` says why it takes in no more of what follows, if that is known.

    If ``graphs_only``, the row is of a convolution together with the gates around it. Only graphs
    of torch.compile call its kernel. They do so in place of the kernel of the convolution alone,
    which has a row of its own.

    ``time_us`` is the kernel's time, ``pytorch_us`` the fastest of PyTorch's in the same layout,
    both in µs for one call; on a CPU both are of calls from Python. Without a ``pytorch_us``,
    ``time_us`` is always of the kernel. ``max_error`` is the kernel's largest error. All three were
    measured when the shape was tuned, and are None if it was not.
    """

    names: list[str]
    operator: str
    shape: str
    calls: int
    by: Literal["tuned", "pytorch"]
    template: str | None = None
    takes_in: list[str] = field(default_factory=list)
    time_us: float | None = None
    pytorch_us: float | None = None
    max_error: float | None = None
    reason: str = ""
    apart: str = ""
    graphs_only: bool = False
    layer: ModelLayer | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        layer: ModelLayer,
        reason: str | None = None,
        calls: int = 0,
        workload: Workload | None = None,
        found: Found | None = None,
    ) -> Self:
        """Return a layer's row, with what the source has ``found``, or why PyTorch computes it."""
        shape = "" if workload is None else _in_words(workload)
        reason = layer.reason if reason is None else reason
        row = cls(layer.names, layer.operator, shape, calls, "pytorch", reason=reason, layer=layer)
        row.graphs_only = layer.is_gated
        if found is None:
            return row
        if found.best is not None:
            best = found.best
            row.time_us, row.max_error = best.time_us, best.max_error
            pytorch = fastest_eager_pytorch(best)
            if pytorch is not None:  # the times that its speed-up compares: on a CPU, of calls
                row.pytorch_us = pytorch["time_us"]
                row.time_us = pytorch["time_us"] / pytorch["speedup"]
        if found.library is not None:
            row.by, row.reason = "tuned", ""
            row.template = found.library.manifest["template"]
            if found.library.workload.is_forward:
                row.takes_in = [type(module).__name__ for module in layer.fused]
                row.apart = layer.apart
        return row

    def leave(self, reason: str) -> None:
        """Have the row say that PyTorch computes the layer, and why."""
        self.by, self.template, self.takes_in, self.reason = "pytorch", None, [], reason

    @property
    def gain_us(self) -> float:
        """µs saved in one call of the model; 0 if PyTorch computes, or a time is not known."""
        if self.by == "pytorch" or self.time_us is None or self.pytorch_us is None:
            return 0.0
        return self.calls * (self.pytorch_us - self.time_us)


@dataclass
class Report:
    """The result of :func:`~tuner.torch.optimize_` for a model.

    ``rows`` are those of its layers. ``before_ms`` and ``after_ms`` are the times in ms of the
    model's call from Python, with its own layers and with tuned ones: medians of calls in turns.
    ``error`` is max|after - before| / max|before| of the model's output, or None if outputs can't
    be compared. ``variation`` is the same of two calls with the model's own layers: it is not 0 if
    the model draws random numbers or counts its calls. In mode "training" times, error and
    variation include gradients. All four are None if no layer was replaced or there was no example.
    ``training`` says whether the model is in training mode.

    ``print`` of it shows a table.
    """

    rows: list[Row]
    training: bool = False
    mode: Mode = "inference"
    before_ms: float | None = None
    after_ms: float | None = None
    error: float | None = None
    variation: float | None = None

    @property
    def tuned(self) -> int:
        """The number of rows that a tuned kernel computes, without those of graphs only."""
        return sum(row.by == "tuned" for row in self._counted)

    @property
    def _counted(self) -> list[Row]:
        """The rows without those of graphs only, which are of layers that have another row."""
        return [row for row in self.rows if not row.graphs_only]

    @property
    def expected_gain_us(self) -> float:
        """µs that tuned layers save in one call of the model, by the times measured in tuning."""
        return sum(row.gain_us for row in self._counted)

    def __str__(self) -> str:
        """Return a table of the rows, the reasons for what PyTorch computes, and the totals."""
        if not self.rows:
            return "the model calls no conv1d and no depthwise conv2d"
        heads = ("layer", "shape", "calls", "computed by", "µs", "PyTorch's µs", "×", "error")
        lines = [heads, *(_cells(row) for row in self.rows)]
        widths = [max(len(line[at]) for line in lines) for at in range(len(heads))]
        table = [
            "  ".join(
                cell.ljust(width) if at < 2 or at == 3 else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([*table, *self._reasons(), *self._whole()])

    def _reasons(self) -> list[str]:
        names: dict[str, list[str]] = {}
        for row in self.rows:
            for said in (row.reason, row.apart):
                if said:
                    names.setdefault(said, []).extend(row.names)
        return [f"{_name(of)}: {reason}" for reason, of in names.items()]

    def _whole(self) -> list[str]:
        what = "layers" if self.mode == "inference" else "outputs and gradients of layers"
        said = [f"{self.tuned} of {len(self._counted)} {what} are computed by tuned kernels"]
        if self.expected_gain_us:
            said.append(f"expected gain of a call: {self.expected_gain_us:,.1f} µs")
        with_gradients = "" if self.mode == "inference" else " and its gradients"
        if self.before_ms and self.after_ms:
            said.append(
                f"measured, a call from Python{with_gradients}: {self.before_ms:.3f} ms before, "
                f"{self.after_ms:.3f} ms after, {self.before_ms / self.after_ms:.2f} times as fast"
            )
        if self.error is not None:
            of = "the output" if self.mode == "inference" else "outputs and gradients"
            said.append(f"largest difference of {of}: {self.error:.1e} of the largest value")
        if self.error and self.variation and self.variation > self.error / 4:
            said.append(
                f"they differ by {self.variation:.1e} from call to call without tuned kernels"
            )
        if self.training and self.mode == "inference":
            said.append("the model is in training mode: call eval() on it, and use torch.no_grad()")
        return said

    def to_json(self) -> str:
        """Return rows and totals as a JSON document."""
        rows = []
        for row in self.rows:
            fields = {name: value for name, value in vars(row).items() if name != "layer"}
            rows.append(fields | {"gain_us": row.gain_us})
        whole = {name: getattr(self, name) for name in _WHOLE}
        return json.dumps({"rows": rows, **whole}, indent=2)

    def svg(self) -> str:
        """Return an SVG of the tuned layers: µs in one call of the model, by PyTorch and tuned."""
        return picture(
            [
                (_name(row.names), row.calls * row.pytorch_us, row.calls * row.time_us)
                for row in self._counted
                if row.by == "tuned" and row.pytorch_us is not None and row.time_us is not None
            ]
        )


def _cells(row: Row) -> tuple[str, ...]:
    by = row.template or row.by
    if row.takes_in:
        by += f" with {', '.join(row.takes_in)}"
    faster = row.pytorch_us / row.time_us if row.time_us and row.pytorch_us else None
    return (
        _name(row.names),
        row.shape,
        str(row.calls or ""),
        by,
        _number(row.time_us, ",.2f"),
        _number(row.pytorch_us, ",.2f"),
        _number(faster, ".2f"),
        _number(row.max_error, ".1e"),
    )


def _name(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _in_words(workload: Workload) -> str:
    """Return a workload's fields that are not at their defaults, in the order of declaration."""
    said: dict[str, Any] = json.loads(workload.key)
    words = []
    for name in type(workload).model_fields:
        if name in said and name not in ("max_error", "kind"):
            value = said[name]
            text = name if value is True else str(value).replace(" ", "")
            words.append(text if value is True or isinstance(value, str) else f"{name}={text}")
    return " ".join(words)


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def in_a_line(error: Exception) -> str:
    """Return an error's class and the first line of its message."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__
