"""Queries for web pages, event streams and shell completion, and a best's figures in words."""
