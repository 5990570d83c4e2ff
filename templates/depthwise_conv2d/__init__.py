"""Depthwise 2-D convolution."""
