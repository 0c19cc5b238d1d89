"""The MCP server, with which agents ask reviewers but cannot decide anything."""
