"""Small faults put into src/assent/domain, one at a time, to see whether the tests notice."""
