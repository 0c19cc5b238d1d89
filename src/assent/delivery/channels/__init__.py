"""The channels that deliver messages to people and programs, one file or folder per type."""
