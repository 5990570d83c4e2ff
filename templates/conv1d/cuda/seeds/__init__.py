"""The templates after the seed documents: a space a file, its schedule in ``schedules``."""
