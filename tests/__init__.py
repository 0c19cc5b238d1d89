"""Claims about Assent, each of which would be false if the code broke."""
