"""The CPU or GPU that is tuned for: what it is, and how it is found."""
