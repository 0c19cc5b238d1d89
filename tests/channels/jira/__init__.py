"""Ways out to people and programs."""
