"""The templates that follow seed documents, on CUDA: a space a file, its schedule in
``schedules``."""
