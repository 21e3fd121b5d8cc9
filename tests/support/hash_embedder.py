"""A small real embedder for tests: words and character pairs hashed into a unit vector."""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from core.types import Vectors
from text import words


class HashEmbedder:
    """No model file, the same on every machine; texts that share words are near each other."""

    def __init__(self, dim: int = 64, name: str = "test/hash", longest: int = 400) -> None:
        self.dim, self.name, self._longest = dim, name, longest

    def fits(self, text: str) -> bool:
        return len(text) <= self._longest

    def passages(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self.query(text) for text in texts])

    def query(self, text: str) -> Vectors:
        return _hashed(text, self.dim)


class Failing(HashEmbedder):
    """Fails over every text that has a certain word."""

    def passages(self, texts: Sequence[str]) -> Vectors:
        if any("poison" in text for text in texts):
            raise RuntimeError
        return super().passages(texts)

    def query(self, text: str) -> Vectors:
        if "poison" in text:
            raise RuntimeError
        return super().query(text)


@lru_cache(4096)
def _hashed(text: str, dim: int) -> Vectors:
    vector = np.zeros(dim, np.float32)
    for feature in [*words.index_terms(text), *map("".join, pairwise(words.fold(text)))]:
        digest = hashlib.blake2b(feature.encode(), digest_size=8).digest()
        sign = 1 if digest[4] % 2 else -1
        vector[int.from_bytes(digest[:4], "big") % dim] += sign * len(feature) ** 0.5
    length = float(np.linalg.norm(vector))
    unit: Vectors = vector / length if length else np.eye(1, dim, dtype=np.float32)[0]
    unit.flags.writeable = False  # all who ask get the same one
    return unit
