"""What is remembered: jobs, trials, the best of each workload, artifacts, devices, workers."""
