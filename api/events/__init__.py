"""Streams of a job's events: the feeds that listeners share, and the ids of events."""
