"""Mutation testing: inserts small faults into the pure modules one at a time and checks whether tests fail."""
