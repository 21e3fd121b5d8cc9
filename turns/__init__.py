"""Nothing but a sentence: says where TurnMemory went to programs that import it from here.

May import: mnelo_locale.
"""

from typing import NoReturn

from mnelo_locale import message


def __getattr__(name: str) -> NoReturn:
    if name.startswith("_"):  # Python asks for such names, and goes on without them
        raise AttributeError(name)
    raise SystemExit(message("turns.moved", name=name))
