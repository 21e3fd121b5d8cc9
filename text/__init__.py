"""What a text alone says: terms, names, times, cues, segments, secrets, orders, and what it states.

Nothing here knows the file, the index or a model.
May import: config, core, mnelo_locale.
"""
