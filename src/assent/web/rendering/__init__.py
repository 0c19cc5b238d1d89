"""Renders content by agents as safe HTML; all functions are pure."""
