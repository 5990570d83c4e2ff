"""The templates for gradients on CUDA: a space a file, its schedule in ``schedules``."""
