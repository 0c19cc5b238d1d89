"""Tests of durable runs: what survives, what happens exactly once, and what people see."""
