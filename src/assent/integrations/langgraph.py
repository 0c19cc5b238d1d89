"""Deprecated: import from assent.agents.langgraph."""

import warnings

from assent.agents.langgraph import Answer, Graph, Progress, aask, approval, aresume, arun, ask, resume, run

__all__ = ["Answer", "Graph", "Progress", "aask", "approval", "aresume", "arun", "ask", "resume", "run"]

warnings.warn("assent.integrations.langgraph is now assent.agents.langgraph", DeprecationWarning, stacklevel=2)
