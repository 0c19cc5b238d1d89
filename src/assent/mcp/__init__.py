"""The MCP server: how agents that speak the Model Context Protocol ask people, and never decide themselves."""
