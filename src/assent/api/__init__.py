"""The HTTP API: one function per endpoint, by resource."""
