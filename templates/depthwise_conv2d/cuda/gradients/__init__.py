"""Templates of gradients on CUDA: a file has a space, ``schedules`` the program of the same
name."""
