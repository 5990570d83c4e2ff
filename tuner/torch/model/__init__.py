"""A model optimised as a whole: its layers found, replaced and reported."""
