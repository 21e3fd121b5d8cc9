"""How memories are found: lanes, their fusion, the hits and their reasons."""
