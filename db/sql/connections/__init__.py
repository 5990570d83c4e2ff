"""The connections of an engine: checked when they are used, and never shared after a fork."""
