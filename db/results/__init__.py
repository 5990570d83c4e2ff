"""What was measured, and what won."""
