"""Every memory in memory: words, vectors, links and cues, as numbers."""
