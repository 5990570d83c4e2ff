"""Errors as problem documents."""
