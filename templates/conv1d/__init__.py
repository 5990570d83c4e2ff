"""1-D convolution."""
