"""The computations of kernels, by PyTorch's own functions."""
