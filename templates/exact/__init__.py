"""Shared parts of the operators' references, which compute in float64."""
