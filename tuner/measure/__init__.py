"""Checking and timing candidates: cases, clocks, noise, and what a time depends on."""
