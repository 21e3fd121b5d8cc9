"""The vectors of the chunks as one matrix in memory, derived from those in the file."""

import math

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from core.types import Vectors

Floats = NDArray[np.float32]

# One product is too short to be shared out: threads that wait for each other cost far more.
threadpool_limits(limits=1, user_api="blas")

GROUP = 16  # values, of very many, of which only the highest is compared with other groups'
NO_VECTOR = -2.0  # below every cosine: the chunk has no vector


class Matrix:
    """Unit vectors, one row a window, and the chunk that each belongs to.

    Not safe for threads by itself.
    """

    def __init__(self, vectors: Vectors, owners: NDArray[np.int32]) -> None:
        """Takes vectors of shape (windows, dimension) and the row of the chunk of each."""
        order = np.argsort(owners, kind="stable")
        self._vectors, self._owners = vectors[order], owners[order].astype(np.intp)
        self._count = len(owners)
        self._several = bool((self._owners[1:] == self._owners[:-1]).any())

    def add(self, owner: int, vectors: Vectors) -> None:
        """The windows of one more chunk, whose row comes after all others."""
        end = self._count + len(vectors)
        if end > len(self._owners) or vectors.shape[1] != self._vectors.shape[1]:
            self._grow(end, vectors.shape[1])
        self._vectors[self._count : end] = vectors
        self._owners[self._count : end] = owner
        self._count = end
        self._several |= len(vectors) > 1

    def _grow(self, least: int, dim: int) -> None:
        capacity = max(2 * len(self._owners), least, 64)
        vectors, owners = np.empty((capacity, dim), np.float32), np.empty(capacity, np.intp)
        if self._count:
            vectors[: self._count] = self._vectors[: self._count]
            owners[: self._count] = self._owners[: self._count]
        self._vectors, self._owners = vectors, owners

    def cosines(
        self, query: Vectors, chunks: int, within: NDArray[np.bool_] | None = None
    ) -> Floats:
        """The cosine of each chunk's best window, float32 of length `chunks`.

        All are exact, whatever scope is of interest.
        """
        if not self._count or self._vectors.shape[1] != len(query):
            return np.full(chunks, NO_VECTOR, np.float32)
        cosines = products(self._vectors[: self._count], query)
        if self._count == chunks and not self._several:
            return cosines  # each chunk has one, and they are in order
        best = np.full(chunks, NO_VECTOR, np.float32)
        owners = self._owners[: self._count]
        if self._several:
            np.maximum.at(best, owners, cosines)
        else:
            best[owners] = cosines
        return best


def products(vectors: Vectors, query: Vectors) -> Floats:
    """The product of each vector with the query, whatever stands beside it.

    BLAS adds up a row otherwise by its place: a last digit would differ between processes.
    """
    found: Floats = np.einsum("ij,j->i", vectors, query)
    return found


def nth_highest(values: Floats, rank: int) -> float:
    """The value at a rank from 1, as many values as are equal having as many ranks."""
    if len(values) <= rank:
        return -math.inf
    if len(values) > 4 * GROUP * rank:
        # So many groups reach what the highest of each are compared by that the values do, too.
        groups = values[: len(values) // GROUP * GROUP].reshape(GROUP, -1)
        values = values[values >= nth_highest(groups.max(0), rank)]
    return float(np.partition(values, -rank)[-rank])
