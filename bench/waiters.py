"""Ten thousand agents waiting."""
