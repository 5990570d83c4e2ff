"""One file a noun; each has a ``router``. What browsers ask for is in ``people``."""
