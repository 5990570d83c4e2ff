"""Helpers of routes: reading queries and bodies, conditional requests, neighbours."""
