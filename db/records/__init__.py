"""Export and import of logs."""
