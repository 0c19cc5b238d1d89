"""The Python SDK: a protocol without I/O, and thin clients that perform it."""
