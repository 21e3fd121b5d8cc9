"""What the indexes need of a text, computed before the write lock is taken."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from functools import lru_cache

from index.chunks import QUESTION, TELLS_TIME, UNSPACED
from index.fields import UNNAMED
from index.names import NOBODY
from index.postings import HALVES
from text import words

MAX_WEIGHT = 255  # a weight is one byte
PADDING = "\x03\x03"
"""Two signs at the end of a text, so that its last characters begin trigrams as well."""


class Indexed:
    """What the store writes about a text beside the text itself."""

    def __init__(self, content: str) -> None:
        self._folded = words.fold(content)
        self._own = Counter(words.stems(words.folded_terms(self._folded)))
        body = words.body(content)
        self.flags = (
            QUESTION * words.is_question(body)
            | TELLS_TIME * words.tells_time(body)
            | UNSPACED * words.is_unspaced(body)
        )
        self.speaker = words.speaker(content)
        self.hash = hash_of(content.encode())

    @property
    def terms(self) -> Iterable[str]:
        """The terms of the text itself, each once."""
        return self._own

    def names(self, known: Set[str]) -> set[str]:
        """Every phrase that may be a name, given the beginnings of all names."""
        codes = words.any_exchange(words.codes(self._folded))
        return words.folded_name_keys(self._folded, known) | codes

    def pieces(self, metadata: str) -> str:
        """The folded text in which literal pieces are searched."""
        return f"{self._folded}\n{words.fold(metadata)}{PADDING}"

    def weights(self, metadata: str, source: str, session_id: str) -> dict[str, int]:
        """Every term with its weight: how often the text has it, in halves.

        Tags, properties, who said it and the session's name count half a word.
        """
        total = {term: count * HALVES for term, count in self._own.items()}
        beside = [*(words.stems(words.index_terms(metadata)) if metadata else ())]
        beside += _terms_of_name(source) if source != NOBODY else ()
        beside += _terms_of_name(session_id) if session_id != UNNAMED else ()
        for term in beside:
            total[term] = total.get(term, 0) + 1
        if max(total.values(), default=0) > MAX_WEIGHT:
            return {term: min(weight, MAX_WEIGHT) for term, weight in total.items()}
        return total


def hash_of(content: bytes) -> int:
    """By which a text is found again, and by which a changed one is noticed."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big", signed=True)


@lru_cache(maxsize=1 << 10)
def _terms_of_name(name: str) -> Sequence[str]:
    """The terms of a source or a session, cached since many texts share one."""
    return tuple(words.stems(words.index_terms(name)))
