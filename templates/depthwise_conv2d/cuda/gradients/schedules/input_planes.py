"""The input's gradient, channels first: the program of channels last, of planes."""

from templates.depthwise_conv2d.cuda.gradients.schedules.input_channels import computation

__all__ = ["computation"]
