"""Tuned kernels as PyTorch modules."""
