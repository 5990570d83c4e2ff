"""The process that serves."""
