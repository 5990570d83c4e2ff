"""API keys, and quotas of unfinished jobs."""
