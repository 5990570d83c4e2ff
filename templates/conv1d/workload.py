"""Conv1dWorkload: what a 1-D convolution or one of its gradients computes, and its limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, get_args

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator
from pydantic_core import PydanticCustomError

from templates.argument import Argument
from templates.ceil_div import ceil_div
from templates.conv1d import combinations
from templates.gradients import Direction, WithGradients
from templates.workload import AddedLater, Digits, Extent, Whole, is_absent, numbers_of

MAX_INPUT = 2**24
MAX_TAPS = 2**16
MAX_STEP = 2**16
MAX_FLOPS = 2**40
MAX_FLOPS_OF_ROWS = 2**44
"""Limit for a forward workload that :attr:`~Conv1dWorkload.is_rows`. It is higher than
``MAX_FLOPS`` because Fourier transforms compute these in far fewer operations."""
MAX_ELEMENTS = 2**30
MAX_BYTES = 2**33

Mode = Literal["full", "same", "valid", "causal"]
Kind = Literal["convolve", "correlate"]
MODES: tuple[Mode, ...] = get_args(Mode)
T = TypeVar("T")


def padding(mode: Mode, samples: int, span: int, kind: Kind) -> tuple[int, int]:
    """Return how many zeros are before and behind an input of so many ``samples``.

    ``span`` is the distance in samples from the kernel's first tap to its last, both included.
    Mode same follows NumPy: the output is as long as the longer of input and kernel.
    """
    if mode == "same" and span > samples:
        left = span - (samples + 1) // 2 if kind == "convolve" else span - samples // 2 - 1
        return left, 2 * span - samples - 1 - left
    return {
        "full": (span - 1, span - 1),
        "same": (span // 2, span - 1 - span // 2),
        "valid": (0, 0),
        "causal": (span - 1, 0),
    }[mode]


Step = Annotated[int, Field(ge=1, le=MAX_STEP), Digits]
Side = Annotated[int, Field(ge=0, le=MAX_INPUT)]


class Conv1dWorkload(WithGradients):
    """1-D convolution of ``B`` signals, as PyTorch's ``conv1d`` computes it, or its gradient.

    The shapes are (B, C, M) for the input, (F, C / groups, N) for the weight and (B, F, L) for the
    output. In layout NWC, channels are last: (B, M, C) and (B, L, F). If B, C and F are 1, the
    shapes are (M,), (N,) and (L,), and the workload is ``numpy.convolve`` or ``numpy.correlate``.
    Mode causal yields the first outputs of mode full, one for each sample: none depends on a later
    sample.

    With ``gated``, the input has 3 C channels: C gates of the signal, C gates of the output and the
    signal itself, as the projection before a gated convolution makes them (LFM2's, for example).
    The output is gate * (convolution(gate * signal) + bias).
    """

    operator: ClassVar[str] = "conv1d"

    M: Whole = Field(ge=1, le=MAX_INPUT, description="input length in samples")
    N: Whole = Field(ge=1, le=MAX_TAPS, description="kernel length in taps")
    mode: Mode | None = Field(
        None,
        description="which outputs: full, same or valid as in numpy.convolve, or causal, the first "
        "outputs of full, one for each sample; full if neither mode nor padding is given",
        exclude_if=is_absent,
    )
    kind: Kind = Field("convolve", description="convolve flips the kernel, correlate does not")
    B: Annotated[Extent, AddedLater()] = Field(1, description="signals, all with the same kernels")
    C: Annotated[Extent, AddedLater()] = Field(1, description="input channels")
    F: Annotated[Extent | None, AddedLater()] = Field(
        None, description="output channels; by default C", exclude_if=is_absent
    )
    groups: Annotated[Extent | None, AddedLater()] = Field(
        None,
        description="C, the default: each output channel is computed from one input channel; 1: "
        "from all",
        exclude_if=is_absent,
    )
    stride: Annotated[Step, AddedLater()] = Field(
        1, description="samples from one output to the next"
    )
    dilation: Annotated[Step, AddedLater()] = Field(
        1, description="samples from one tap to the next"
    )
    padding: Annotated[
        tuple[Side, Side] | None,
        BeforeValidator(numbers_of("before", "behind", most=MAX_INPUT)),
        PlainSerializer(list),
        AddedLater(),
    ] = Field(
        None,
        description="instead of a mode: zeros before and behind the input, such as 1,1",
        exclude_if=is_absent,
    )
    layout: Annotated[Literal["NCW", "NWC"], AddedLater()] = Field(
        "NCW", description="order of the axes of input and output: NCW, or NWC (channels last)"
    )
    gated: Annotated[bool, AddedLater()] = Field(
        False,
        description="whether the input has 3 C channels: C that multiply the signal, C that "
        "multiply the output, and the C of the signal; in layout NWC only",
    )

    @model_validator(mode="after")
    def _one_form(self) -> Conv1dWorkload:
        """Normalise the fields, so that equal workloads have equal keys.

        F and groups are left out at their defaults. Padding becomes the mode with this padding, if
        there is one. A single signal has layout NCW. Raise an error if groups, F, mode and padding
        do not fit each other, or if no program serves such a convolution in direction backward or
        with gates.
        """
        edges = "mode" if self.padding is None else "padding"  # the field that was given
        if self.F == self.C:
            self._set(F=None)
        if self.groups == self.C:
            self._set(groups=None)
        if self.groups not in (None, 1):
            raise PydanticCustomError(
                "groups",
                "groups must be C = {C} or 1, but is {groups}; convolve each group by itself",
                {"C": self.C, "groups": self.groups, "field": "groups"},
            )
        if self.groups is None and self.out_channels % self.C:
            raise PydanticCustomError(
                "out_channels",
                "F must be a multiple of C = {C} if each output channel is computed from one input "
                "channel, but is {F}; take another F, or groups 1",
                {"C": self.C, "F": self.F, "field": "F"},
            )
        if self.mode is not None and self.padding is not None:
            raise PydanticCustomError(
                "mode_and_padding", "give mode or padding, not both", {"field": "padding"}
            )
        if self.padding is None:
            self._set(mode=self.mode or "full")
        else:
            named = (mode for mode in MODES if self._padding(mode) == self.padding)
            mode = next(named, None)
            self._set(mode=mode, padding=None if mode else self.padding)
        if self.is_one_signal:
            self._set(layout="NCW")
        combinations.check(self, edges)
        return self

    @model_validator(mode="after")
    def _within_limits(self) -> Conv1dWorkload:
        if self.span > MAX_INPUT:
            raise PydanticCustomError(
                "too_far",
                "the kernel must span at most 2^24 samples, but dilation times (N - 1) is {reach}; "
                "take a smaller dilation",
                {"reach": self.span - 1, "field": "dilation"},
            )
        padded = self.M + sum(self.pads)
        if self.span > padded:
            raise PydanticCustomError(
                "no_output",
                "the kernel spans {span} samples, but input and padding have {padded}; "
                "pad more, as mode full does, or take a smaller kernel or dilation",
                {"span": self.span, "padded": padded, "field": "N"},
            )
        largest = max(self.arguments, key=lambda argument: argument.elements)
        if largest.elements > MAX_ELEMENTS or self.bytes > MAX_BYTES:
            extents = ("C", "N") if largest.role == "weight" else ("B", "C")
            raise PydanticCustomError(
                "too_many_bytes",
                "a tensor must have at most 2^30 elements, and all at most 2^33 bytes together, "
                "but {name} has {elements} elements, and all have {bytes} bytes; split the batch "
                "or the channels, or take a shorter signal or kernel",
                {
                    "name": largest.name,
                    "elements": largest.elements,
                    "bytes": self.bytes,
                    "field": next((name for name in extents if getattr(self, name) > 1), "M"),
                },
            )
        transformed = self.is_rows and self.is_forward
        if self.flops > (MAX_FLOPS_OF_ROWS if transformed else MAX_FLOPS):
            raise PydanticCustomError(
                "too_much_work",
                "the operations, two for each tap of each output, must be at most {most}, but are "
                "{flops}; split the input into overlapping pieces",
                {"most": "2^44" if transformed else "2^40", "flops": self.flops, "field": "M"},
            )
        return self

    @property
    def is_one_signal(self) -> bool:
        """Whether B, C and F are 1: one signal of one channel, with one kernel and no gates."""
        return (self.B, self.C, self.out_channels) == (1, 1, 1) and not self.gated

    @property
    def is_basic(self) -> bool:
        """Whether it is one signal, no shorter than its kernel, at stride 1 without dilation, in
        one of the modes."""
        return self.is_one_signal and self.is_rows

    def reduced_to(self, signals: int, channels: int) -> Self:
        if signals < self.B:
            return self._with(B=signals)
        first = self.B == 1 and not self.is_dense and self.layout == "NCW" and not self.is_flat
        if first and channels < self.C:
            return self._with(C=channels, F=channels * self.multiplier)
        return self

    @property
    def is_plain(self) -> bool:
        return self.is_basic and super().is_plain

    @property
    def is_rows(self) -> bool:
        """Whether each output row is what an :attr:`is_basic` workload computes from one input row:
        the rows :attr:`are_apart`, and the kernel is no longer than a signal."""
        return self.are_apart and self.N <= self.M

    @property
    def are_apart(self) -> bool:
        """Whether each output row depends on one contiguous input row only, at stride 1 without
        dilation or gates, in one of the modes."""
        apart = not self.is_dense and (self.layout == "NCW" or self.C == self.out_channels == 1)
        simple = (self.stride, self.dilation) == (1, 1) and not self.gated
        return apart and simple and bool(self.mode)

    @property
    def must_transform(self) -> bool:
        """Whether only templates that transform may compute it: the direct form takes minutes."""
        return self.flops > MAX_FLOPS

    @property
    def gate_channels(self) -> int:
        return 2 * self.C if self.gated else 0

    @property
    def out_channels(self) -> int:
        return self.F or self.C

    @property
    def rows(self) -> int:
        """Rows of the output: B * F."""
        return self.B * self.out_channels

    @property
    def is_dense(self) -> bool:
        """Whether each output channel sums over all of several input channels (groups 1)."""
        return self.groups == 1

    @property
    def summed(self) -> int:
        """Input channels that one output channel sums over: C if it is dense, else 1."""
        return self.C if self.is_dense else 1

    @property
    def multiplier(self) -> int:
        """Output channels that read the same input channels: F if it is dense, else F / C."""
        return self.out_channels if self.is_dense else self.out_channels // self.C

    @property
    def span(self) -> int:
        """Samples from the kernel's first tap to its last, both included."""
        return (self.N - 1) * self.dilation + 1

    @property
    def length(self) -> int:
        """Output length L."""
        return (self.M + sum(self.pads) - self.span) // self.stride + 1

    @property
    def pads(self) -> tuple[int, int]:
        """Zeros before and behind the input."""
        return self.padding or self._padding(self.mode or "full")

    @property
    def left(self) -> int:
        """Zeros before the input. In correlation form, with the taps u in the order in which they
        meet samples: y[i] = sum over t of x[i * stride + t * dilation - left] * u[t]."""
        return self.pads[0]

    @property
    def arguments(self) -> tuple[Argument, ...]:
        F, layout = self.out_channels, None if self.is_one_signal else self.layout
        inside, outside = (
            self.place(self.B, channels, extent)
            for channels, extent in ((self.gate_channels + self.C, self.M), (F, self.length))
        )
        output = Argument("output", outside, self.dtype, "output", layout)
        weight, axes = self.weight_place(F, self.summed, self.N), "OIW" if layout else None
        return self.in_direction(
            Argument("input", inside, self.dtype, "input", layout),
            Argument("weight", weight, self.dtype, "weight", axes),
            output,
        )

    @property
    def taps(self) -> int:
        """Multiply-adds for one output element; in direction backward, for one of the weight's
        gradient."""
        if self.direction in ("backward_weight", "backward"):
            return self.B * self.length
        if self.direction == "backward_input":
            met = self.stride // math.gcd(self.stride, self.dilation)
            return self.multiplier * ceil_div(self.N, met)
        return self.N * self.summed

    @property
    def flops(self) -> int:
        """Floating-point operations of the direct form. Direction backward counts as two
        convolutions, and a third that computes the sums again if there is an activation."""
        if self.direction != "backward":
            return super().flops
        passes = 2 if self.activation == "none" else 3
        return 2 * passes * self.N * self.rows * self.length

    def with_direction(self, direction: Direction) -> Conv1dWorkload:
        """Return the same convolution in another direction."""
        return Conv1dWorkload.model_validate(self.model_dump() | {"direction": direction})

    @cached_property
    def as_forward(self) -> Conv1dWorkload | None:
        """The forward workload that computes this gradient of an input, or None.

        There is one at stride 1 if each channel has one kernel and there is no activation: the
        convolution of the output's gradient with the reversed taps. It is None if its padding
        would be negative, or if the output's gradient is longer than an input may be.
        """
        sides = [self.span - 1 - side for side in self.pads]
        fits = (
            self.direction == "backward_input"
            and (self.stride, self.activation, self.out_channels) == (1, "none", self.C)
            and (not self.is_dense)
            and min(sides) >= 0
            and self.length <= MAX_INPUT
        )
        if not fits:
            return None
        return Conv1dWorkload(
            M=self.length,
            N=self.N,
            kind="correlate" if self.kind == "convolve" else "convolve",
            B=self.B,
            C=self.C,
            dilation=self.dilation,
            padding=(sides[0], sides[1]),
            layout=self.layout,
            dtype=self.dtype,
            max_error=self.max_error,
        )

    def place(self, b: T, c: T, i: T) -> tuple[T, ...]:
        """Return signal, channel and sample in the layout's order, or (i,) for one signal."""
        if self.is_one_signal:
            return (i,)
        return (b, i, c) if self.layout == "NWC" else (b, c, i)

    def axes(self, place: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Return signal, channel and sample of a place in the layout; the inverse of ``place``."""
        if self.is_one_signal:
            return (0, 0, place[0])
        b, c, i = place
        return (b, i, c) if self.layout == "NWC" else (b, c, i)

    def weight_place(self, f: T, c: T, t: T) -> tuple[T, ...]:
        """Return the weight's index: output channel, input channel among those it sums over, and
        tap; (t,) for one signal."""
        return (t,) if self.is_one_signal else (f, c, t)

    def _padding(self, mode: Mode) -> tuple[int, int]:
        return padding(mode, self.M, self.span, self.kind)
