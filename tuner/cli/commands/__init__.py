"""A command a file."""
