"""Example processes to copy into a server's folder. Each one shows one way to use breakpoints."""
