"""Texts in plain letters and digits: without zero-width signs and full-width letters."""

import re
import string

_SIGNS = "\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff"
_AS_ASCII = {
    **{ord(char) + 0xFEE0: char for char in string.ascii_letters + string.digits + "#%&*+-./@_"},
    **dict.fromkeys((0xA0, 0x2002, 0x2003, 0x2009, 0x202F, 0x3000), " "),
    **dict.fromkeys((0x2010, 0x2011, 0x2012, 0x2013, 0x2212), "-"),
    0x130: "I",  # the one letter that is longer in lower case
}
_ODD = re.compile(f"[{_SIGNS}{''.join(map(chr, _AS_ASCII))}]")
_UNSEEN = re.compile(f"[{_SIGNS}]")


def fold(text: str) -> tuple[str, list[int] | None]:
    """The text in plain letters and digits, and where each stood; None where all stay in place.

    >>> fold("ｓｋ\u200b-1")
    ('sk-1', [0, 1, 3, 4])
    """
    if text.isascii() or not _ODD.search(text):
        return text, None
    if not _UNSEEN.search(text):
        return text.translate(_AS_ASCII), None
    places: list[int] = []
    at = 0
    for unseen in _UNSEEN.finditer(text):
        places += range(at, unseen.start())
        at = unseen.end()
    places += range(at, len(text))
    return _UNSEEN.sub("", text).translate(_AS_ASCII), places
