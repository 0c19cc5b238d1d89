"""Encryption keys of stored secrets, and references to secrets in settings."""
