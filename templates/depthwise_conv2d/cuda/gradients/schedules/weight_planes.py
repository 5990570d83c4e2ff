"""Program of the weight's gradient, channels first: the one of channels last, for planes."""

from templates.depthwise_conv2d.cuda.gradients.schedules.weight_channels import computation

__all__ = ["computation"]
