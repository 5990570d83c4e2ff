"""Maintenance of the database: backup and restore, check, pruning, and reclaiming disk space."""
