"""Front doors for agent frameworks: one file each, each behind an extra of its own."""
