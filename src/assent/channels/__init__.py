"""Empty until its issue."""
