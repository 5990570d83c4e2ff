"""The round in which finalists and baselines take turns."""
