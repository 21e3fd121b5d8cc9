"""What recall computes with: words, vectors, links and cues of all chunks, as numbers in memory.

Nothing here reads the file: the store makes these from its rows and keeps them up to date.
May import: core, text.
"""
