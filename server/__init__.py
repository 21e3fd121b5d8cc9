"""MCP over HTTP, and the bridge for clients that only start programs."""
