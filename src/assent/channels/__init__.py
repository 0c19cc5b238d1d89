"""Ways out to people and programs: one file each."""
