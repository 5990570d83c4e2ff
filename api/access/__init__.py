"""Access control: keys and scopes, loopback, request origins, rate limits."""
