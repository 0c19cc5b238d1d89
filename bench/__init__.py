"""Measurements, side by side in one run and printed as ratios; times are never asserted."""
