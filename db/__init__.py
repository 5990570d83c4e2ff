"""Storage of jobs, models, trials, bests, artifacts, devices, workers and API keys."""
