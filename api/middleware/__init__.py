"""What wraps every request: its id and log line, HEAD, the limit on bodies."""
