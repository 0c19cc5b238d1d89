"""Example processes to copy into a server's process folder. Each shows one way to use breakpoints."""
