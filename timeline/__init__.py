"""Entries: a summary, five tags and a context each, and groups of entries that are alike.

Loaded only where `[server] toolsets` names the timeline.
May import: access, config, core, embedder, embedding, index, mnelo_locale, store, text, upkeep.
"""
