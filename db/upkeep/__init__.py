"""Backup, check, pruning."""
