"""Export of bests as a Python package, which runs without TVM's compiler and without convtune."""
