"""Small discrete Fourier transforms as straight-line code, for values that live in registers."""

from __future__ import annotations

import math
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir

Complex = tuple[Any, Any]
"""Real and imaginary part, each a bound expression, so that repeated use costs nothing."""


def dft(values: list[Complex], sign: int) -> list[Complex]:
    """Return X[k] = sum over p of values[p] * exp(sign * 2 pi i p k / n), unscaled and in natural
    order, for n = len(values), a power of two.

    The code is emitted into the open frame of the IR builder. It is decimation in frequency: Cooley
    and Tukey's step with radix 4, or radix 2 for n = 2 and 8.
    """
    n = len(values)
    if n == 1:
        return values
    if n == 2:
        return [_add(*values), _subtract(*values)]
    if n == 4:
        return _four(values, sign)
    radix = 2 if n == 8 else 4
    rest = n // radix
    columns = []
    for j in range(rest):
        column = dft(values[j::rest], sign)
        columns.append([_turn(value, sign * j * q, n) for q, value in enumerate(column)])
    parts = [dft([column[q] for column in columns], sign) for q in range(radix)]
    return [parts[k % radix][k // radix] for k in range(n)]


def multiply(a: Complex, b: Complex, conjugate: bool = False) -> Complex:
    """Return a * b, or a times the conjugate of b."""
    (re, im), (c, s) = a, b
    if conjugate:
        return ir.Bind(re * c + im * s), ir.Bind(im * c - re * s)
    return ir.Bind(re * c - im * s), ir.Bind(re * s + im * c)


def _add(a: Complex, b: Complex) -> Complex:
    return ir.Bind(a[0] + b[0]), ir.Bind(a[1] + b[1])


def _subtract(a: Complex, b: Complex) -> Complex:
    return ir.Bind(a[0] - b[0]), ir.Bind(a[1] - b[1])


def _four(values: list[Complex], sign: int) -> list[Complex]:
    a, b, c, d = values
    even, odd = (_add(a, c), _subtract(a, c)), (_add(b, d), _subtract(b, d))
    (re, im), (turned_re, turned_im) = even[1], odd[1]
    minus = ir.Bind(re + turned_im), ir.Bind(im - turned_re)  # even - i odd
    plus = ir.Bind(re - turned_im), ir.Bind(im + turned_re)  # even + i odd
    first, third = (minus, plus) if sign < 0 else (plus, minus)
    return [_add(even[0], odd[0]), first, _subtract(even[0], odd[0]), third]


def _turn(value: Complex, steps: int, n: int) -> Complex:
    """Return value * exp(2 pi i steps / n). Multiples of a quarter turn need no multiplication, odd
    multiples of an eighth only two."""
    re, im = value
    eighths, between = divmod(8 * steps % (8 * n), n)
    if between:
        angle = 2 * math.pi * steps / n
        c, s = (tirx.const(f(angle), "float32") for f in (math.cos, math.sin))
        return multiply(value, (c, s))
    if eighths % 2:
        half = tirx.const(math.sqrt(0.5), "float32")
        re, im = ir.Bind((re - im) * half), ir.Bind((re + im) * half)
    zero = tirx.const(0.0, "float32")
    quarters = eighths // 2
    if quarters == 0:
        return re, im
    if quarters == 1:
        return ir.Bind(zero - im), re
    if quarters == 2:
        return ir.Bind(zero - re), ir.Bind(zero - im)
    return im, ir.Bind(zero - re)
