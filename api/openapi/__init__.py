"""The OpenAPI document: what FastAPI makes, corrected and completed."""
