"""MCP over HTTP, and the bridge for clients that only start programs.

A request goes through `transport.py` and `tools.py` to a method of Memory.
May import: access, config, core, memory, mnelo_locale, timeline.
"""
