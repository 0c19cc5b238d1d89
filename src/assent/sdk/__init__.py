"""What agents and tools use to reach a server: a pure protocol, and a thin client that performs it."""
