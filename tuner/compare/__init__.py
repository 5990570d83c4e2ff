"""The runner of candidates, and the round in which finalists and baselines are compared."""
