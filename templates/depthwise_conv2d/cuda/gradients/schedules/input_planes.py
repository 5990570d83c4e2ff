"""Program of the input's gradient, channels first: the one of channels last, for planes."""

from templates.depthwise_conv2d.cuda.gradients.schedules.input_channels import computation

__all__ = ["computation"]
