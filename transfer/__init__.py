"""Memories out of the file and into it: exports, imports, and what other programs store.

May import: access, config, core, memory, mnelo_locale, recall, store, text.
"""
