"""Whole training steps, before and after ``optimize_``."""
