"""The templates of gradients alone: a space a file, its schedule in ``schedules``."""
