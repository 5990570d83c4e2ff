"""Output for people on a terminal: progress bar, report of a best, options as text."""
