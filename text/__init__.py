"""What can be told from a text alone: terms, names, dates, secrets, differences."""
