"""The service."""

import gc

gc.set_threshold(20_000)
"""Objects between two looks for garbage. What is imported stays, and looking for garbage in it, as
often as Python does by itself, takes a tenth of the start."""
