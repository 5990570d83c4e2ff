"""One job, from start to end."""
