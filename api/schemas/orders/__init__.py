"""Pydantic models of orders: of a job, of the verification of a neighbour, of a model."""
