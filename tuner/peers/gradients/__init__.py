"""What a user would call instead of a tuned gradient."""
