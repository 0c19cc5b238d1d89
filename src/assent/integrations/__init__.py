"""Former names of the integrations in `assent.agents`; importing them causes a deprecation warning."""
