"""Templates for CUDA: a file has a search space, ``schedules`` the program of the same name."""
