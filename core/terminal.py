"""What people read in a terminal: stored texts, names of files and errors, without their power.

A text can hold signs that a terminal obeys: it would set the window's title, rewrite lines above
or turn letters round. They are shown as JSON writes them (`\\u001b`), wherever the output goes,
since a pipe too may end in a terminal. So JSON that is printed means the same as before.
"""

import json
import re
import sys
from collections.abc import Mapping
from typing import IO, Any

_OBEYED = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but for tab and newline, what turns the direction of writing round, and
halves of characters, which stand for bytes in names of files."""


def shown(text: object) -> str:
    """A text as it may be printed.

    >>> print(shown("a kettle\\x1b[2J"))
    a kettle\\u001b[2J
    """
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", str(text))


def as_json(value: Mapping[str, Any], **options: Any) -> str:
    """JSON that may be printed: it means exactly what the value is."""
    return shown(json.dumps(value, ensure_ascii=False, **options))


def say(text: object, file: IO[str] | None = None) -> None:
    """Print a line, or several, to stdout if nothing else is said."""
    print(shown(text), file=file)


def complain(text: object, end: str = "\n") -> None:
    """Print what went wrong, or what is asked."""
    print(shown(text), end=end, file=sys.stderr, flush=True)
