"""Templates for signals that share kernels."""
