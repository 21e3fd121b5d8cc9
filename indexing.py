"""A text made ready for the indexes, before the write lock is taken."""

import hashlib
from collections import Counter

import words
from index import NOBODY, QUESTION, TELLS_TIME, UNNAMED, UNSPACED
from postings import HALVES

MOST = 255  # a weight is one byte
PADDING = "\x03\x03"
"""Two signs at the end of a text, so that its last characters begin trigrams as well."""


class Indexed:
    """What the store writes of one text beside the text itself."""

    def __init__(self, content: str) -> None:
        self._folded = words.fold(content)
        self._own = Counter(words.stems(words.folded_terms(self._folded)))
        self.names = words.folded_name_keys(self._folded)
        self.names |= words.any_exchange(words.codes(self._folded))
        body = words.body(content)
        self.flags = (
            QUESTION * words.is_question(body)
            | TELLS_TIME * words.tells_time(body)
            | UNSPACED * words.is_unspaced(body)
        )
        self.speaker = words.speaker(content)
        self.hash = int.from_bytes(
            hashlib.blake2b(content.encode(), digest_size=8).digest(), "big", signed=True
        )

    def pieces(self, metadata: str) -> str:
        """The folded text in which pieces are looked for as they stand."""
        return f"{self._folded}\n{words.fold(metadata)}{PADDING}"

    def weights(self, metadata: str, source: str, session_id: str) -> dict[str, int]:
        """Every term with its weight: how often the text has it, in halves.

        Tags, properties, who said it and the session's name count half a word.
        """
        beside = [metadata]
        beside += [source] if source != NOBODY else []
        beside += [session_id] if session_id != UNNAMED else []
        total = {term: count * HALVES for term, count in self._own.items()}
        for term in words.stems(words.index_terms("\n".join(beside))):
            total[term] = total.get(term, 0) + 1
        return {term: weight if weight < MOST else MOST for term, weight in total.items()}
