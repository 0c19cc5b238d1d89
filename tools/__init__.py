"""Programs beside the package, which need nothing of it."""
