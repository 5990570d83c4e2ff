"""Templates of gradients on CUDA: search spaces, and their programs in ``schedules``."""
