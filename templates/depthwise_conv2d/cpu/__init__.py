"""Templates for a CPU: search spaces, and in ``schedules`` the programs of the same names."""
