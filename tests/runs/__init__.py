"""Durable runs: what survives, what is done once, and what people see of it."""
