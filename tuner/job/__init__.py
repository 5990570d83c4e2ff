"""Running one job, from its order over its trials to the stored best."""
