"""Real parts for tests: PostgreSQL, running nodes, clients."""
