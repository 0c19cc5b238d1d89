"""Former names of the integrations in `assent.agents`; importing them warns."""
