"""Parts of kernels that several templates share."""
