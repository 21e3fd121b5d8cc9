"""Vectors for memories and for questions: the file's model, and the memories that wait for it.

`vectors.py` gives vectors to new memories, to waiting ones in the background, and to questions;
`model.py` loads and follows the file's model; `passages.py` says what is embedded of a memory.
May import: config, core, embedder, index, mnelo_locale, store, text.
"""
