"""Assent."""
