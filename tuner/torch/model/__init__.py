"""Whole models: their layers are found, replaced and reported."""
