"""The MCP server: what programs that act for a person may ask of dicore, over standard streams."""
