"""Export of trials and bests as logs, and import of logs as jobs."""
