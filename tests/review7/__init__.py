"""Faults that a review of issue 7 found; each test fails until its fault is mended."""
