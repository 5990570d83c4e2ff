"""The runner, and the round in which finalists and baselines are compared."""
