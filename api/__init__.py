"""The HTTP service and its pages for people; ``python -m api`` runs it."""

import gc

gc.set_threshold(20_000)
"""Number of net allocations between two garbage collections. Imported modules are never garbage.
With Python's default, searching them takes a tenth of the time to start."""
