"""Breakpoints, approvals and the audit log as values and functions, without I/O."""
