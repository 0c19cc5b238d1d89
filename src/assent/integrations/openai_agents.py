"""Deprecated: import from assent.agents.openai_agents."""

import warnings

from assent.agents.openai_agents import Approvals

__all__ = ["Approvals"]

warnings.warn("assent.integrations.openai_agents is now assent.agents.openai_agents", DeprecationWarning, stacklevel=2)
