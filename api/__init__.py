"""The HTTP service and its pages for people; ``python -m api`` runs it."""

import gc

gc.set_threshold(20_000)
"""How many objects Python allocates, net, between two garbage collections. Imported modules are
never garbage, and searching them as often as Python does by default takes a tenth of the start."""
