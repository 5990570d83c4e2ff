"""The ladder: the seed documents' schedules, step by step, measured on a device."""
