"""One file a noun; each has a ``router``."""
