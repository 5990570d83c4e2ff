"""Peers for gradients: what a user would call instead of a tuned gradient."""
