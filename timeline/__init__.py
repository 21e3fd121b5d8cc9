"""Entries: a summary, five tags and a context each, in groups of what is alike."""
