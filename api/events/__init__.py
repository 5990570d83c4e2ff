"""Streams of what happens."""
