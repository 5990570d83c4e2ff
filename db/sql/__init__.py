"""The database itself."""
