"""Gradients beside PyTorch's: of layers, and of whole training steps."""
