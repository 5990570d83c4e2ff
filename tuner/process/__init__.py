"""Processes and their limits."""
