"""Knobs, and the spaces they span."""
