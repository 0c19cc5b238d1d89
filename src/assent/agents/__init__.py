"""Integrations with agents and frameworks, one module each."""
