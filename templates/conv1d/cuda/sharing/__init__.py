"""The templates for signals that share long kernels, on CUDA."""
