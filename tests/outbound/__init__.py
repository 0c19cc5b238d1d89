"""Outbound requests, with real receivers."""
