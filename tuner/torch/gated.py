"""The PyTorch module of a convolution between gates."""

from __future__ import annotations

from typing import Any

from tuner.torch.modules import Conv1d
from tuner.torch.pytorch_only import NEEDS_GRAD
from tuner.torch.workload_lookup import Purpose


class GatedConv1d(Conv1d):
    """A ``conv1d`` of each channel by itself, between two gates, by tuned kernels.

    The input is (B, 3 C, M), with its channels last in memory: C channels of gates before the
    convolution, C of gates behind it, and the C channels of the signal. The output is
    gates * (conv1d(gates * signal) + bias). There must be an output for each sample, as in mode
    causal. All else is as in :class:`Conv1d`. PyTorch computes all gradients.
    """

    ungated: tuple[Conv1d, ...] = ()
    """A layer for calls of which only the convolution is tuned, or none. It is in a tuple, so that
    it is no submodule."""

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
        # what a kernel is tuned without would be added behind the gates, so it must have the bias
        return found if isinstance(found, str) else found[:1]

    def _fields(self, x: Any) -> dict[str, Any] | str:
        if x.ndim != 3 or x.shape[1] != 3 * self.channels:
            return f"the input has shape {tuple(x.shape)}, not (B, {3 * self.channels}, M)"
        if self._has_bias and not self.bias_in_kernel:
            return "its bias must be in the kernel, before the gates"
        layout = "NCW" if x.is_contiguous() else "NWC"
        return self._fields_of(x.shape[0], x.shape[2], layout) | {"gated": True}
