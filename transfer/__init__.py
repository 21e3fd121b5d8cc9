"""Memories out of the file and into it: exports, and what other programs store."""
