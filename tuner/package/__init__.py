"""Kernels that travel: bests as a Python package that needs neither TVM nor the service."""
