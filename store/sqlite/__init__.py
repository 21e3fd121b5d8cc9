"""The store as one SQLite file: every SQL statement, beside the function that runs it.

`store.py` begins each write and `writer.py` does it, in one transaction; `view.py` is what a
reading connection is asked; `snapshots.py` keeps the index in memory up to date; the other
modules have a subject each: undo, purge, erase, export, turns, entries ...
May import: config, core, entity_resolve, index, mnelo_locale, text.
"""
