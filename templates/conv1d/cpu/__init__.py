"""The templates for a CPU: a space a file, its schedule in ``schedules``."""
