"""Who claims jobs."""
