"""The plan of a job: which configurations may be tried, and which come next."""
