"""What is here to tune for."""
