"""The store as one SQLite file: the only place with SQL."""
