"""Pydantic models of requests and answers: one noun a file, each with its examples."""
