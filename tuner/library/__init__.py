"""Calling a compiled kernel, and whom to believe."""
