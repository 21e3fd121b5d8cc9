"""Texts with a NUL (U+0000), a character that any memory may hold.

SQLite keeps such a text whole, and `=`, `||` and instr() see all of it. But length(), substr(),
LIKE, GLOB and the queries of FTS5 end a text at its first NUL. What must not be deceived by that
uses the functions here.
"""


def begin_alike(one: str, other: str, count: int) -> bool:
    """Whether the first `count` characters of two texts are the same: for SQL's substr()."""
    return one[:count] == other[:count]


def max_length(column: str) -> str:
    """SQL for a number of characters that no text in a column exceeds: for SQL's length()."""
    return f"octet_length({column})"


def quoted(term: str) -> str:
    """A term as a string in a query of FTS5, whose tokenizer takes a space for a NUL."""
    return '"' + term.replace('"', '""').replace("\x00", " ") + '"'
