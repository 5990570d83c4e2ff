"""Epilogue of a program in TIR: bias, residual and activation of its sums. Imports TVM."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx

from templates.epilogue import WithEpilogue
from templates.kernels.conversions import let, narrowed, widened

_LOG2_E = 1.44269504088896341
_EXP_2 = (1.32647273e-3, 9.671513e-3, 5.55073358e-2, 2.402224242e-1, 6.931470037e-1, 1.0)
"""Fitted coefficients of 2^f for abs(f) <= 1/2; their relative error is at most 1.1e-7."""
_EXP_2_SHORT = (9.570101947e-3, 5.591786159e-2, 2.402474484e-1, 6.931218146e-1, 9.999992614e-1)
"""Fitted coefficients of the same with one term less; their relative error is at most 2.6e-6."""
_MIN_ERROR_OF_SHORT = 1e-5
"""The least max_error for which ``_EXP_2_SHORT`` is exact enough."""
_WHOLE = 1.5 * 2**23 + 127.0
"""Adding a number of at most 2^21 to this rounds it to a whole number.

The last bits of the sum are then 127, the exponent's bias, plus that whole number.
"""
_POWERS = (-127.0, 128.0)
"""The least and the largest exponent of a power of two: their bits give 0 and infinity."""
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
_ERF_SCALE = 0.3275911


def apply_epilogue(
    workload: WithEpilogue,
    total: Any,
    added: Sequence[Any],
    channel: Any,
    place: Sequence[Any],
    in_vectors: bool = False,
    gate: Any = None,
) -> Any:
    """Return what is stored for a float32 sum: the epilogue's result, in the workload's dtype.

    ``total`` is the sum at ``place`` in the output, which belongs to ``channel``. ``added`` are the
    buffers or tensors of :meth:`WithEpilogue.epilogue_arguments`. ``in_vectors`` says that a CPU's
    vector units compute the sum of few taps. An activation then takes most of their time, so it may
    be computed in fewer operations. The result is multiplied by ``gate``, a float32 value, unless
    ``gate`` is None.
    """
    rest = list(added)
    if workload.bias:
        total += widened(rest.pop(0)[channel], workload.dtype)
    if workload.residual:
        total += widened(rest.pop(0)[tuple(place)], workload.dtype)
    if workload.activation != "none":
        fewer = in_vectors and workload.max_error >= _MIN_ERROR_OF_SHORT
        table = _ACTIVATIONS | _FAST_ACTIVATIONS if fewer else _ACTIVATIONS
        total = let(total, table[workload.activation])
    if gate is not None:
        total = total * gate
    return narrowed(total, workload.dtype)


def gradient_of_sums(workload: WithEpilogue, gradient: Any, sums: Any = None) -> Any:
    """Return the gradient of the sums in float32.

    ``gradient`` is that of the activation's result, and ``sums`` are the values before the
    activation, given if there is one. Both are in the workload's dtype.
    """
    value = widened(gradient, workload.dtype)
    if workload.activation == "none":
        return value
    return value * activation_derivative(workload, widened(sums, workload.dtype))


def activation_derivative(workload: WithEpilogue, sums: Any) -> Any:
    """Return the derivative of the workload's activation at sums in float32.

    The activation must not be "none".
    """
    return let(sums, _DERIVATIVES[workload.activation])


def _relu(v: Any) -> Any:
    return tirx.Select(v < 0.0, _float(0.0), v)  # a NaN stays one


def _relu6(v: Any) -> Any:
    return tirx.Select(v > 6.0, _float(6.0), _relu(v))


def _silu(v: Any) -> Any:
    return v / (_exp(-v) + 1.0)


def _fast_silu(v: Any) -> Any:
    """Return silu with a relative error of at most (28 + abs(v)) 1e-7, in three fewer operations.

    Below -88 the result may already be 0.
    """

    def divided(held: Any) -> Any:
        # Not quite log2(e): the compiler would share the product of equal factors between this sum
        # and the one in raised(), and could then fuse it with neither.
        whole = held * (-_LOG2_E * (1 - 2**-18)) + _WHOLE
        return let(tirx.reinterpret("int32", whole), lambda bits: raised(held, bits), "int32")

    def raised(held: Any, bits: Any) -> Any:
        # Reinterpreted, because the compiler would cancel adding _WHOLE against subtracting it.
        rest = held * -_LOG2_E - (tirx.reinterpret("float32", bits) - _WHOLE)
        power = tirx.reinterpret("float32", bits << 23)
        return let(rest, lambda f: v / (_horner(_EXP_2_SHORT, f) * power + 1.0))

    least, most = -89.0, 88.0  # by its exponent's bits exp(89) is infinite; exp(-88) is subnormal
    low = tirx.Select(v < least, _float(least), v)  # a NaN is not below, so it stays one
    return let(low, lambda t: let(tirx.Select(t > most, _float(most), t), divided))


def _gelu(v: Any) -> Any:
    """Return gelu, v times the normal distribution function at v."""
    return let(_tail(v), lambda p: v * tirx.Select(v < 0.0, p, _float(1.0) - p))


def _tail(v: Any) -> Any:
    """Return the normal distribution function at -abs(v).

    The error function is formula 7.1.26 of Abramowitz and Stegun, "Handbook of Mathematical
    Functions", whose absolute error is at most 1.5e-7.
    """

    def upper_tail(size: Any) -> Any:
        """Return (1 - erf(size)) / 2."""
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
_FAST_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"silu": _fast_silu}


def _silu_derivative(v: Any) -> Any:
    return let(_float(1.0) / (_exp(-v) + 1.0), lambda s: s * ((_float(1.0) - s) * v + 1.0))


def _gelu_derivative(v: Any) -> Any:
    """Return gelu's derivative: the normal distribution function at v, plus v times its density.

    The distribution function has an absolute error of at most 1.5e-7, as in :func:`_gelu`.
    """
    density = _exp(v * v * -0.5) * (2 * math.pi) ** -0.5
    return let(_tail(v), lambda p: tirx.Select(v < 0.0, p, _float(1.0) - p)) + v * density


def _between(v: Any, low: float, high: float, within: Any, above: float) -> Any:
    """Return 0 up to ``low``, ``above`` from ``high`` on, else ``within``, also for a NaN."""
    return tirx.Select(v <= low, _float(0.0), tirx.Select(v >= high, _float(above), within))


_DERIVATIVES: dict[str, Callable[[Any], Any]] = {
    "relu": lambda v: tirx.Select(v <= 0.0, _float(0.0), _float(1.0)),
    "relu6": lambda v: _between(v, 0.0, 6.0, _float(1.0), 0.0),
    "silu": _silu_derivative,
    "gelu": _gelu_derivative,
    "hardswish": lambda v: _between(v, -3.0, 3.0, v * (1.0 / 3.0) + 0.5, 1.0),
}


def _exp(v: Any) -> Any:
    """Return exp(v) with a relative error of at most (2 + abs(v)) 1e-7.

    The result is 0 or infinite beyond float32's range. A result that would be subnormal is off by
    up to 1e-38.

    The compiler can vectorise these operations, but not a call of the C library. The power of two
    is added to the exponent's bits.
    """
    low, high = _POWERS

    def raised(power: Any, whole: Any) -> Any:
        bits = tirx.reinterpret("int32", _horner(_EXP_2, power - whole))
        return tirx.reinterpret("float32", bits + (whole.astype("int32") << 23))

    # A NaN stays one, because it is neither below nor above.
    raising = let(v * _LOG2_E, lambda t: tirx.Select(t < low, _float(low), t))
    held = let(raising, lambda t: tirx.Select(t > high, _float(high), t))
    return let(held, lambda t: let(tirx.nearbyint(t), lambda n: raised(t, n)))


def _horner(coefficients: Sequence[float], v: Any) -> Any:
    """Return the polynomial with these coefficients, the highest power's first, at v."""
    value = _float(coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * v + coefficient
    return value


def _float(value: float) -> Any:
    return tirx.const(value, "float32")
