"""Templates for a CPU: a file has a search space, ``schedules`` the program of the same name."""
