"""What may be tried."""
