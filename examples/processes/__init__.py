"""Processes to copy into a server's folder: each one shows one way to use breakpoints."""
