"""Hypothesis strategies for legal workloads: small ones, quick enough to run, and any within the
limits."""

from collections.abc import Callable, Sequence
from typing import Any, get_args

from hypothesis import strategies as st
from pydantic import ValidationError

from templates.conv1d.combinations import SMOOTH
from templates.conv1d.workload import (
    MAX_INPUT,
    MAX_STEP,
    MAX_TAPS,
    Conv1dWorkload,
    Mode,
)
from templates.depthwise_conv2d.workload import (
    MAX_BYTES,
    MAX_KERNEL,
    MAX_REACH,
    DepthwiseConv2dWorkload,
)
from templates.dtypes import Dtype
from templates.epilogue import Activation
from templates.workload import Workload

MODES = st.sampled_from(get_args(Mode))
KINDS = st.sampled_from(["convolve", "correlate"])
DTYPES = st.sampled_from(get_args(Dtype))
EPILOGUES = st.just({}) | st.fixed_dictionaries(
    {
        "bias": st.booleans(),
        "residual": st.booleans(),
        "activation": st.sampled_from(get_args(Activation)),
    }
)
"""Fields of the epilogue: those of a plain workload, or any."""
PLAIN_DTYPES = st.fixed_dictionaries({"dtype": st.sampled_from(["float32", "float16"])})
ANY_DTYPES_AND_EPILOGUES = st.builds(
    lambda dtype, ends: {"dtype": dtype, **ends}, DTYPES, EPILOGUES
)
PRIMES = st.sampled_from([1, 2, 3, 5, 7, 13, 31, 61, 97, 127, 251, 397])


@st.composite
def small_conv1d(draw: st.DrawFn, plain: bool = False) -> Conv1dWorkload:
    """Draw a workload of at most 400 samples; primes, M = N and N = 1 are frequent.

    Half of them are one signal in one of the modes. The others are any ``small_signals`` or
    ``gated_signals``. With ``plain`` all are one signal without an epilogue, in float32 or float16.
    """
    M = draw(PRIMES | st.integers(1, 400))
    if not plain and draw(st.booleans()):
        return draw(small_signals(min(M, 127)) | gated_signals())
    N = draw(st.sampled_from([1, M]) | st.integers(1, M))
    rest = draw(PLAIN_DTYPES if plain else ANY_DTYPES_AND_EPILOGUES)
    return Conv1dWorkload(M=M, N=N, mode=draw(MODES), kind=draw(KINDS), **rest)


@st.composite
def small_signals(draw: st.DrawFn, M: int) -> Conv1dWorkload:
    """Draw a workload of ``M`` samples with any signals, channels, kernels, stride and dilation.

    N > M, kernels that reach beyond the signal, and more output channels than input channels are
    frequent.
    """
    N = draw(st.sampled_from([1, 2, 3, 4, 7, 31, 64, M, M + 3]) | st.integers(1, 90))
    step = draw(st.sampled_from([1, 1, 2, 5, M + 1]))
    reach = (N - 1) * step
    before = draw(st.integers(0, reach + 3))
    behind = draw(st.integers(max(0, reach + 1 - M - before), reach + 3))
    padded = st.just({"padding": (before, behind)})
    modes = st.fixed_dictionaries({"mode": st.sampled_from(["full", "same", "causal"])})
    C, dense = draw(st.sampled_from([1, 2, 3, 5, 8])), draw(st.booleans())
    F = draw(st.sampled_from([1, 2, 3, 7, C] if dense else [C, C, 2 * C, 3 * C]))
    return Conv1dWorkload(
        M=M,
        N=N,
        B=draw(st.integers(1, 3)),
        C=C,
        F=F,
        groups=1 if dense else C,
        stride=draw(st.sampled_from([1, 1, 2, 3, 5, 40])),
        dilation=step,
        layout=draw(st.sampled_from(["NCW", "NWC"])),
        kind=draw(KINDS),
        **draw(padded | modes),
        **draw(ANY_DTYPES_AND_EPILOGUES),
    )


@st.composite
def gated_signals(draw: st.DrawFn) -> Conv1dWorkload:
    """Draw a small workload whose input has gates.

    N > M and taps beyond the signal are frequent.
    """
    M, C = draw(st.integers(1, 67)), draw(st.sampled_from([1, 2, 3, 8, 16, 24]))
    N = draw(st.sampled_from([1, 2, 3, 4, 7, 17, M + 3]))
    step = draw(st.sampled_from([1, 1, 2, M + 1]))
    before = draw(st.integers(0, (N - 1) * step))
    padded = st.just({"padding": (before, (N - 1) * step - before)})
    return Conv1dWorkload(
        M=M,
        N=N,
        B=draw(st.integers(1, 3)),
        C=C,
        dilation=step,
        layout="NWC",
        gated=True,
        kind=draw(KINDS),
        dtype=draw(DTYPES),
        bias=draw(st.booleans()),
        **draw(padded | st.just({"mode": "causal"})),
    )


@st.composite
def small_depthwise_conv2d(draw: st.DrawFn, plain: bool = False) -> DepthwiseConv2dWorkload:
    """Draw a workload of planes of at most 37 by 37; H = 1, W = 1 and K > H are frequent.

    Half of them have the fields of :func:`basic`. With ``plain`` all have them, no epilogue, and
    float32 or float16.
    """
    extent = st.sampled_from([1, 2, 3, 17, 37]) | st.integers(1, 37)
    odd = basic([1, 3, 5, 7, 9, 11])
    return DepthwiseConv2dWorkload(
        B=draw(st.integers(1, 3)),
        C=draw(st.integers(1, 4)),
        H=draw(extent),
        W=draw(extent),
        **draw(odd if plain else odd | windows(most=9)),
        **draw(PLAIN_DTYPES if plain else ANY_DTYPES_AND_EPILOGUES),
    )


def basic(sizes: Sequence[int]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw the fields of an odd square kernel of one of the ``sizes``, with the default padding."""
    return st.fixed_dictionaries({"K": st.sampled_from(sizes), "stride": st.sampled_from([1, 2])})


@st.composite
def windows(draw: st.DrawFn, most: int) -> dict[str, Any]:
    """Draw the fields of any kernel of at most ``most`` rows and columns, with stride, dilation,
    multiplier and layout. The padding is large enough for a plane of any size."""
    KH, KW = draw(st.integers(1, most)), draw(st.integers(1, most))
    step = draw(st.integers(1, min(4, MAX_REACH // max(KH, KW))))
    vertical, horizontal = ((taps - 1) * step for taps in (KH, KW))
    top, left = draw(st.integers(0, vertical + 2)), draw(st.integers(0, horizontal + 2))
    bottom = draw(st.integers(max(0, vertical - top), vertical + 2))
    right = draw(st.integers(max(0, horizontal - left), horizontal + 2))
    return {
        "KH": KH,
        "KW": KW,
        "stride": draw(st.integers(1, 4)),
        "padding": [top, left, bottom, right],
        "dilation": step,
        "multiplier": draw(st.sampled_from([1, 1, 2, 3])),
        "layout": draw(st.sampled_from(["NCHW", "NHWC"])),
    }


@st.composite
def small_gradients(draw: st.DrawFn, operator: str) -> Any:
    """Draw a small workload of direction backward_input or backward_weight."""
    forward = draw(SMALL[operator]())
    direction = draw(st.sampled_from(["backward_input", "backward_weight"]))
    fields = forward.model_dump(exclude_none=True) | {"direction": direction}
    if fields.get("gated"):
        fields["gated"] = False  # no gradient has gates
    return type(forward).model_validate(fields)


@st.composite
def small_backward(draw: st.DrawFn) -> Conv1dWorkload:
    """Draw a small workload of direction backward, N > M and padding wider than the kernel
    included."""
    M, N = draw(PRIMES), draw(st.sampled_from([1, 2, 3, 4, 5, 7, 9, 13]))
    step = draw(st.sampled_from([1, 1, 2, 5]))
    reach = (N - 1) * step
    before = draw(st.integers(0, reach + 3))
    behind = draw(st.integers(max(0, reach + 1 - M - before), reach + 3))
    padded = st.just({"padding": (before, behind)})
    modes = st.fixed_dictionaries({"mode": st.sampled_from(["full", "same", "causal"])})
    return Conv1dWorkload(
        M=M,
        N=N,
        B=draw(st.integers(1, 3)),
        C=draw(st.sampled_from([1, 2, 5, 17])),
        dilation=step,
        layout=draw(st.sampled_from(["NCW", "NWC"])),
        kind=draw(KINDS),
        dtype=draw(DTYPES),
        bias=draw(st.booleans()),
        activation=draw(st.sampled_from(SMOOTH)),
        direction="backward",
        **draw(padded | modes),
    )


@st.composite
def any_conv1d(draw: st.DrawFn) -> Conv1dWorkload:
    """Draw any legal workload, up to the limits of each field and of all together."""
    N = draw(_up_to(MAX_TAPS))
    mode = draw(MODES)
    M = max(N, draw(_up_to(MAX_INPUT)))
    signal = Conv1dWorkload(M=M, N=N, mode=mode, kind=draw(KINDS), dtype=draw(DTYPES))
    if draw(st.booleans()):
        return signal
    fields = signal.model_dump(exclude={"max_error"})
    fields |= {"layout": draw(st.sampled_from(["NCW", "NWC"])), "stride": draw(_up_to(MAX_STEP))}
    fields["groups"] = 1 if draw(st.booleans()) else None
    for name in draw(st.permutations(["B", "C", "F"])):
        if fields["groups"] or name != "F":
            fields[name] = draw(_up_to(_most(fields, name)))
    return Conv1dWorkload(**fields)


def _most(fields: dict[str, Any], name: str) -> int:
    """Return the largest power of two, up to 2^20, that the other fields allow for one of B, C and
    F."""
    most = 1
    while most < 2**20:
        try:
            Conv1dWorkload(**fields | {name: 2 * most})
        except ValidationError:
            return most
        most *= 2
    return most


@st.composite
def any_depthwise_conv2d(draw: st.DrawFn) -> DepthwiseConv2dWorkload:
    """Draw any legal workload; each extent may be as large as those drawn before it allow."""
    window = draw(basic(range(1, MAX_KERNEL + 1, 2)) | windows(most=MAX_KERNEL))
    fields = {"B": 1, "C": 1, "H": 1, "W": 1, "dtype": draw(DTYPES), **window}
    for name in draw(st.permutations(["B", "C", "H", "W"])):
        fields[name] = draw(_up_to(_largest(fields, name)))
    return DepthwiseConv2dWorkload(**fields)


SMALL: dict[str, Callable[..., st.SearchStrategy[Any]]] = {
    "conv1d": small_conv1d,
    "depthwise_conv2d": small_depthwise_conv2d,
}
WORKLOADS: st.SearchStrategy[Workload] = any_conv1d() | any_depthwise_conv2d()


def _up_to(limit: int) -> st.SearchStrategy[int]:
    """Draw from 1..limit, every order of magnitude and the limit itself with equal frequency."""
    bits = limit.bit_length()
    return st.integers(0, bits + 1).flatmap(
        lambda order: st.just(limit) if order > bits else st.integers(1, min(limit, 2**order))
    )


def _largest(fields: dict[str, Any], name: str) -> int:
    """Return the largest value of one extent with which the tensors take at most MAX_BYTES."""
    low, high = 1, MAX_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        try:
            DepthwiseConv2dWorkload(**{**fields, name: middle})
            low = middle
        except ValidationError:
            high = middle - 1
    return low
