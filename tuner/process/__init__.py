"""Child processes with their limits and deadlines; stop flags, logs and temporary files."""
