"""Sources: what each of them hears and tells."""
