"""A Confluence space by way of an MCP server."""
