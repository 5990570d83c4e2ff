"""Benchmarks of training: gradients of layers, and whole training steps, beside PyTorch's."""
