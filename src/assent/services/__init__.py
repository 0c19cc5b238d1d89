"""Use cases: one method, one transaction, read as a recipe."""
