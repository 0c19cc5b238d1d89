"""All tables, defined once for both databases; the migrations must produce exactly this schema."""

from assent.db.tables import audit, breakpoints, delegation, people, policy, runs, triggers
from assent.db.tables.base import metadata

__all__ = ["audit", "breakpoints", "delegation", "metadata", "people", "policy", "runs", "triggers"]
