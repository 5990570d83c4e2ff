"""What is ordered: a job, a neighbour to verify, a model."""
