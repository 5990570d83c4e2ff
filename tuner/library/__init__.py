"""Loading and calling a compiled library, and deciding whose signatures to trust."""
