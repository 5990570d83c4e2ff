"""The PyTorch module of a convolution between gates."""

from __future__ import annotations

from typing import Any

from tuner.errors import WrongArgument
from tuner.torch.lookup.workload_lookup import Purpose
from tuner.torch.modules import Conv1d
from tuner.torch.pytorch_only import NEEDS_GRAD


class GatedConv1d(Conv1d):
    """A ``conv1d`` of each channel by itself, between two gates, by tuned kernels.

    The input is (B, 3 C, M), with its channels last in memory: C channels of the gates ``before``
    the convolution, C of the gates ``behind`` it, and C of the ``signal``. The output, ``behind *
    (conv1d(before * signal) + bias)``, also has M samples. So ``groups`` is C and the stride is 1.
    The mode is causal or same, or the padding has (N - 1) * dilation zeros in all. If it has as
    many zeros on each side, as in modules whose output is cut off after M samples, the convolution
    is causal. All else is as in :class:`Conv1d`. PyTorch computes all gradients. Raises
    WrongArgument.
    """

    ungated: tuple[Conv1d, ...] = ()
    """The layer that computes calls of which only the convolution is tuned; may be empty. The tuple
    keeps the layer from being a submodule."""

    def __init__(self, weight: Any, bias: Any = None, **form: Any) -> None:
        super().__init__(weight, bias, **form)
        self.make_causal()
        zeros = (self.taps - 1) * self._dilation
        whole = self.mode in ("causal", "same") or (
            self.mode is None and sum(self._padding) == zeros
        )
        if not (self.groups == self.channels == self.filters and self._stride == 1 and whole):
            raise WrongArgument(
                "a convolution between gates has groups = C = F, stride 1 and an output for each "
                f"sample, as in mode causal; this one has groups {self.groups}, {self.channels} to "
                f"{self.filters} channels, stride {self._stride} and "
                f"{f'mode {self.mode}' if self.mode else f'padding {self._padding}'}"
            )

    def by_pytorch(self, x: Any, weight: Any, bias: Any, residual: Any, reason: str) -> Any:
        if not self.ungated or residual is not None:
            return super().by_pytorch(x, weight, bias, residual, reason)
        self._record_use("pytorch", reason)
        before, behind, signal = x.chunk(3, dim=-2)
        return self.ungated[0].computed(before * signal, weight, bias) * behind

    def convolved(self, x: Any, weight: Any, bias: Any) -> Any:
        before, behind, signal = x.chunk(3, dim=-2)
        return super().convolved(before * signal, weight, bias) * behind

    def with_gradients(self, x: Any, weight: Any, bias: Any, residual: Any) -> Any:
        return NEEDS_GRAD

    @property
    def only_pytorch(self) -> bool:
        return True

    def wanted(
        self, x: Any, residual: bool = False, purpose: Purpose = "forward"
    ) -> list[dict[str, Any]] | str:
        if purpose != "forward":
            return "its gradients are PyTorch's"
        found = super().wanted(x, residual)
        # a bias that a kernel lacks would be added behind the gates, so the kernel must include it
        return found if isinstance(found, str) else found[:1]

    def _fields(self, x: Any) -> dict[str, Any] | str:
        if x.ndim != 3 or x.shape[1] != 3 * self.channels:
            return f"the input has shape {tuple(x.shape)}, not (B, {3 * self.channels}, M)"
        if self._has_bias and not self.bias_in_kernel:
            return "its bias must be in the kernel, before the gates"
        layout = "NWC" if x.mT.is_contiguous() else "NCW"
        return self._fields_of(x, layout) | {"gated": True}
