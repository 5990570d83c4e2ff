"""What pages and streams read."""
