"""Vectors for memories and for questions: the file's model, and the memories that wait for it.

May import core, config, text, index, store, embedder.py and mnelo_locale.py.
"""
