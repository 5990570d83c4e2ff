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
_FEWER = (9.570101947e-3, 5.591786159e-2, 2.402474484e-1, 6.931218146e-1, 9.999992614e-1)
"""The same to within 2.6e-6."""
_ADMITS_FEWER = 1e-5
"""The least max_error that admits those."""
_WHOLE = 1.5 * 2**23 + 127.0
"""The last bits of this plus a number of at most 2^21 are 127 plus the nearest whole number."""
_POWERS = (-126.0, 127.0)
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
_ERF_SCALE = 0.3275911


def finished(
    workload: WithEpilogue,
    total: Any,
    added: Sequence[Any],
    channel: Any,
    place: Sequence[Any],
    in_vectors: bool = False,
) -> Any:
    """What is stored for the float32 sum ``total`` at ``place`` of the output, which is of that
    ``channel``, in the workload's dtype. ``added`` are the buffers or tensors of
    :meth:`WithEpilogue.added`. ``in_vectors`` says that a CPU's vector units compute few taps, and
    so an activation takes most of their time."""
    rest = list(added)
    if workload.bias:
        total += widened(rest.pop(0)[channel], workload.dtype)
    if workload.residual:
        total += widened(rest.pop(0)[tuple(place)], workload.dtype)
    if workload.activation != "none":
        fewer = in_vectors and workload.max_error >= _ADMITS_FEWER
        table = _ACTIVATIONS | _IN_FEWER if fewer else _ACTIVATIONS
        total = let(total, table[workload.activation])
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


def _silu_in_fewer(v: Any) -> Any:
    """To within (28 + abs(v)) 1e-7 of itself, in three operations less."""

    def divided(held: Any) -> Any:
        # not quite log2(e): else the product is computed once, and fused with neither sum
        whole = held * (-_LOG2_E * (1 - 2**-18)) + _WHOLE
        return let(tirx.reinterpret("int32", whole), lambda bits: raised(held, bits), "int32")

    def raised(held: Any, bits: Any) -> Any:
        # reinterpreted, as the compiler would take what was added off again
        rest = held * -_LOG2_E - (tirx.reinterpret("float32", bits) - _WHOLE)
        power = tirx.reinterpret("float32", bits << 23)
        return let(rest, lambda f: v / (_horner(_FEWER, f) * power + 1.0))

    most = 88.0  # e to that is a float32, and to the negative hardly
    low = tirx.Select(v < -most, _float(-most), v)  # a NaN is neither, and stays one
    return let(low, lambda t: let(tirx.Select(t > most, _float(most), t), divided))


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
_IN_FEWER: dict[str, Callable[[Any], Any]] = {"silu": _silu_in_fewer}


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
