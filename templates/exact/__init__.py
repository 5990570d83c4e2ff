"""What the references of all operators share. They compute in float64."""
