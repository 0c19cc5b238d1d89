"""The MCP server, which lets agents ask reviewers but not make decisions."""
