"""Tests that run the unmodified programs in examples/ with a live server."""
