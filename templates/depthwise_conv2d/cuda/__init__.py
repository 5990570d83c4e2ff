"""Templates for CUDA: search spaces, and in ``schedules`` the programs of the same names."""
