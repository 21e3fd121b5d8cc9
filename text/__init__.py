"""What a text alone shows: terms, names, dates, secrets, differences."""
