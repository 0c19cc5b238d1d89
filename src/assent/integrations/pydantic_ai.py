"""Deprecated: import from assent.agents.pydantic_ai."""

import warnings

from assent.agents.pydantic_ai import Approvals

__all__ = ["Approvals"]

warnings.warn("assent.integrations.pydantic_ai is now assent.agents.pydantic_ai", DeprecationWarning, stacklevel=2)
