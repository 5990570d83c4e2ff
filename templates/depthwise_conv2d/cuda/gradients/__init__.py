"""Templates of gradients on CUDA: a file has a search space, ``schedules`` its program."""
