"""Search spaces: knobs, constraints between them, and the configurations that they span."""
