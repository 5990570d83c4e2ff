"""The templates for CUDA: a space a file, its schedule in ``schedules``."""
