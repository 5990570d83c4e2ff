"""Gradients of layers and of operators by name."""
