"""Helpers of routes: reading queries and bodies, finding neighbours, completing OpenAPI."""
