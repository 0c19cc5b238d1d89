"""All tables, defined once for both databases; the migrations must produce exactly this schema."""

from assent.store.tables import audit, breakpoints, delegation, people, policy, runs, triggers
from assent.store.tables.base import metadata

__all__ = ["audit", "breakpoints", "delegation", "metadata", "people", "policy", "runs", "triggers"]
