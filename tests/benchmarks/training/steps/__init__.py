"""Benchmark of whole training steps, before and after ``optimize_``."""
