"""Real components for tests: PostgreSQL, nodes, clients and fake servers."""
