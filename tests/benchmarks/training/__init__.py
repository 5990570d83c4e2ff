"""Gradients beside PyTorch's: programs are written where TVM is, and measured where a GPU is."""
