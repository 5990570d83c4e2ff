"""From a program to a library."""
