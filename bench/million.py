"""Lists over a million breakpoints."""
