"""Compiling a program (a TVM schedule) and linking it into a shared library."""
