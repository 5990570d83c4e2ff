"""What kernels of several templates share."""
