"""The seed documents' steps, measured."""
