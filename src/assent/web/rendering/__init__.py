"""Renders content from agents as safe HTML."""
