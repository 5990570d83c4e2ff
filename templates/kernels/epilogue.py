"""The epilogue of a program: its sums with bias, residual and activation. Imports TVM."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx

from templates.epilogue import WithEpilogue
from templates.kernels.conversions import let, narrowed, widened

_LOG2_E = 1.44269504088896341
_EXP_2 = (1.32647273e-3, 9.671513e-3, 5.55073358e-2, 2.402224242e-1, 6.931470037e-1, 1.0)
"""2^f for f within a half of zero, to within 1.1e-7 of itself, by a fit."""
_POWERS = (-126.0, 127.0)
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
_ERF_SCALE = 0.3275911


def finished(
    workload: WithEpilogue, total: Any, added: Sequence[Any], channel: Any, place: Sequence[Any]
) -> Any:
    """What is stored for the float32 sum ``total`` at ``place`` of the output, which is of that
    ``channel``, in the workload's dtype. ``added`` are the buffers or tensors of
    :meth:`WithEpilogue.added`."""
    rest = list(added)
    if workload.bias:
        total += widened(rest.pop(0)[channel], workload.dtype)
    if workload.residual:
        total += widened(rest.pop(0)[tuple(place)], workload.dtype)
    if workload.activation != "none":
        total = let(total, _ACTIVATIONS[workload.activation])
    return narrowed(total, workload.dtype)


def gradient_of_sums(workload: WithEpilogue, gradient: Any, sums: Any = None) -> Any:
    """In float32, of the gradient of the activation's result and, if there is an activation, of the
    sums before it, both in the workload's dtype."""
    value = widened(gradient, workload.dtype)
    if workload.activation == "none":
        return value
    return value * slope(workload, widened(sums, workload.dtype))


def slope(workload: WithEpilogue, sums: Any) -> Any:
    """The derivative of the workload's activation, which is not none, at sums in float32."""
    return let(sums, _SLOPES[workload.activation])


def _relu(v: Any) -> Any:
    return tirx.Select(v < 0.0, _float(0.0), v)  # a NaN stays one


def _relu6(v: Any) -> Any:
    return tirx.Select(v > 6.0, _float(6.0), _relu(v))


def _silu(v: Any) -> Any:
    return v / (_exp(-v) + 1.0)


def _gelu(v: Any) -> Any:
    """v times the normal distribution."""
    return let(_tail(v), lambda p: v * tirx.Select(v < 0.0, p, _float(1.0) - p))


def _tail(v: Any) -> Any:
    """The normal distribution at -abs(v). The error function is 7.1.26 of Abramowitz and Stegun,
    "Handbook of Mathematical Functions", whose absolute error is at most 1.5e-7."""

    def upper_tail(size: Any) -> Any:
        """(1 - erf(size)) / 2."""
        return let(
            _float(1.0) / (size * _ERF_SCALE + 1.0),
            lambda t: _horner(_ERF, t) * t * _exp(-size * size) * 0.5,
        )

    return let(tirx.abs(v) * 0.5**0.5, upper_tail)


def _hardswish(v: Any) -> Any:
    return v * _relu6(v + 3.0) * (1.0 / 6.0)


_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": _relu,
    "relu6": _relu6,
    "silu": _silu,
    "gelu": _gelu,
    "hardswish": _hardswish,
}


def _slope_of_silu(v: Any) -> Any:
    return let(_float(1.0) / (_exp(-v) + 1.0), lambda s: s * ((_float(1.0) - s) * v + 1.0))


def _slope_of_gelu(v: Any) -> Any:
    """The normal distribution at v and v times its density. The first is to within 1.5e-7, as that
    of the activation."""
    density = _exp(v * v * -0.5) * (2 * math.pi) ** -0.5
    return let(_tail(v), lambda p: tirx.Select(v < 0.0, p, _float(1.0) - p)) + v * density


def _between(v: Any, low: float, high: float, within: Any, above: float) -> Any:
    """0 up to low, and what is above from high on; a NaN is within."""
    return tirx.Select(v <= low, _float(0.0), tirx.Select(v >= high, _float(above), within))


_SLOPES: dict[str, Callable[[Any], Any]] = {
    "relu": lambda v: tirx.Select(v <= 0.0, _float(0.0), _float(1.0)),
    "relu6": lambda v: _between(v, 0.0, 6.0, _float(1.0), 0.0),
    "silu": _slope_of_silu,
    "gelu": _slope_of_gelu,
    "hardswish": lambda v: _between(v, -3.0, 3.0, v * (1.0 / 3.0) + 0.5, 1.0),
}


def _exp(v: Any) -> Any:
    """To within (2 + abs(v)) 1e-7 of itself, in operations that a compiler can put into
    vectors as it can't a call of the C library. The power of two is added to the exponent."""
    low, high = _POWERS

    def raised(power: Any, whole: Any) -> Any:
        bits = tirx.reinterpret("int32", _horner(_EXP_2, power - whole))
        return tirx.reinterpret("float32", bits + (whole.astype("int32") << 23))

    # a NaN stays one: it is neither below nor above
    raising = let(v * _LOG2_E, lambda t: tirx.Select(t < low, _float(low), t))
    held = let(raising, lambda t: tirx.Select(t > high, _float(high), t))
    return let(held, lambda t: let(tirx.nearbyint(t), lambda n: raised(t, n)))


def _horner(coefficients: Sequence[float], v: Any) -> Any:
    """The polynomial with the coefficients, that of the highest power first."""
    value = _float(coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * v + coefficient
    return value


def _float(value: float) -> Any:
    return tirx.const(value, "float32")
