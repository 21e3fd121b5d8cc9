"""The vectors of very many chunks as codes of 2 bits a dimension, which give near cosines.

A float takes 32 bits a dimension, and reading them all is what an exact search waits for. A code
tells every vector's cosine with a query nearly enough to choose a few hundred, which are then
compared by a byte a dimension: nearly exactly.

The form is that of RaBitQ (Gao and Long, 2024) and its successor with more bits (Gao et al.,
2024), without their rotation: the axes of embeddings are even enough. With m the mean of the
vectors,

    q . x  =  (q - m) . (x - m)  +  m . x  +  (q . m - m . m)

The last term is one number a query and m . x one a vector. Only the first is estimated: x - m by
a code d of -3, -1, 1 or 3 a dimension, q - m by a code z of -1, 0 or 1, each times the number
that makes the code right about its own vector: |x - m|^2 / ((x - m) . d), and the like for z.
What embeddings have in common is in m; without it, signs tell models like E5 nearly nothing.

A 2-bit code is two planes of bits, high and low, each +1 or -1: d = 2 high + low. So z . d takes
an exclusive or with the signs of z, an and with its dimensions that are not 0, and a count of
bits, once a plane. That is half the counting of 1-bit codes against a query of 4 bits, and errs
less.

A code fits many vectors into a core's cache. The best 400 by their codes are then compared by
their dimensions in 127 steps. More than 99 % of what an exact search finds is found; the long run
of the tests measures it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.types import Vectors
from index.matrix import NO_VECTOR, nth_highest, products

Floats = NDArray[np.float32]
Words = NDArray[np.uint64]
Owners = NDArray[np.intp]
Mask = NDArray[np.bool_]

MIN_VECTORS = 256  # fewer vectors have no stable mean, and are kept as they are
BLOCK = 16384  # vectors compared at a time: few calls, and they fit in a core's cache
BATCH_VECTORS = 512  # vectors encoded at a time, so that little is in memory twice
INNER = 0.9957  # of the deviation: least squared error of 2-bit steps, normal (Max, 1960)
RESCORED = 400  # windows that are nearest by their codes, and get nearly exact cosines
STEPS = 127  # of a dimension, either way, that tell a vector nearly exactly
EPSILON = np.float32(1e-30)  # instead of 0 as a divisor
HIGH, LOW = 0, 1
WORD = 64


class Codes:
    """What a Matrix does, nearly, in a third of its memory, of which most is seldom read.

    Fewer than MIN_VECTORS vectors are compared exactly. Not safe for threads by itself.
    """

    def __init__(self, vectors: Vectors, owners: NDArray[np.int32]) -> None:
        """Takes unit vectors, (windows, dimension), and the row of the chunk of each."""
        self._early, self._early_owners = vectors[:0], owners[:0].astype(np.intp)
        self._centre: Floats | None = None
        self._blocks: list[_Block] = []
        self._owners = np.zeros(0, np.intp)  # the type that needs no conversion as an index
        self._count = 0
        self._take(vectors, owners.astype(np.intp))

    def add(self, owner: int, vectors: Vectors) -> None:
        """The windows of one more chunk."""
        self._take(vectors, np.full(len(vectors), owner, np.intp))

    def extend(self, vectors: Vectors, owners: NDArray[np.int32]) -> None:
        """More windows, and the row of the chunk of each."""
        self._take(vectors, owners.astype(np.intp))

    def cosines(self, query: Vectors, chunks: int, within: Mask | None = None) -> Floats:
        """About the cosine of each chunk's best window, float32 of length `chunks`.

        Those of the RESCORED nearest windows of chunks within a scope are nearly exact.
        """
        best = np.full(chunks, NO_VECTOR, np.float32)
        if self._centre is None:
            if len(self._early) and self._early.shape[1] == len(query):
                np.maximum.at(best, self._early_owners, products(self._early, query))
        elif len(self._centre) == len(query):
            near = self._near(query, self._centre)
            owners = self._owners[: self._count]
            wanted = near if within is None else np.where(within[owners], near, NO_VECTOR)
            self._compare(wanted, near, query, self._centre)
            # As fast as assigning where every chunk has one window.
            np.maximum.at(best, owners, near)
        return best

    def _near(self, query: Vectors, centre: Floats) -> Floats:
        """About the cosine of each window, by its code."""
        question = _Question(query, centre)
        near = np.empty(self._count, np.float32)
        start = 0
        for block in self._blocks:
            near[start : start + block.count] = self._scratch.cosines(block, question)
            start += block.count
        return near

    def _compare(self, wanted: Floats, near: Floats, query: Vectors, centre: Floats) -> None:
        """Replace the estimates of the nearest wanted windows by nearly exact cosines."""
        least = max(nth_highest(wanted, RESCORED), -1.5)  # what is out of scope is at NO_VECTOR
        places = np.flatnonzero(wanted >= least)[:RESCORED]
        common = np.float32(query @ centre)
        for number in np.unique(places // BLOCK).tolist():
            these = places[places // BLOCK == number]
            block, at = self._blocks[number], these - number * BLOCK
            near[these] = common + block.beside(at, query * self._spread)

    def _take(self, vectors: Vectors, owners: Owners) -> None:
        """Keep vectors as codes, or as they are while they are too few to have a mean."""
        if self._centre is None:
            if len(self._early):
                vectors = np.concatenate((self._early, vectors))
                owners = np.concatenate((self._early_owners, owners))
            if len(vectors) < MIN_VECTORS:
                self._early, self._early_owners = vectors.copy(), owners
                return
            self._early, self._early_owners = vectors[:0].copy(), owners[:0].copy()
            self._centre = vectors.mean(0, dtype=np.float32)
            self._spread = np.maximum(_deviation(vectors, self._centre), EPSILON)
            self._scratch = _Scratch(_words(len(self._centre)))
        self._encode(vectors, owners, self._centre)

    def _encode(self, vectors: Vectors, owners: Owners, centre: Floats) -> None:
        self._keep(owners)
        start = 0
        while start < len(vectors):
            if not self._blocks or self._blocks[-1].count == BLOCK:
                self._blocks.append(_Block(len(centre)))
            block = self._blocks[-1]
            end = min(start + BATCH_VECTORS, start + BLOCK - block.count, len(vectors))
            block.add(encode(vectors[start:end], centre, self._spread))
            start = end

    def _keep(self, owners: Owners) -> None:
        end = self._count + len(owners)
        if end > len(self._owners):
            room = np.empty(max(end, len(self._blocks) * BLOCK + BLOCK), np.intp)
            room[: self._count] = self._owners[: self._count]
            self._owners = room
        self._owners[self._count : end] = owners
        self._count = end


@dataclass(frozen=True, slots=True)
class Encoded:
    """Some vectors as codes."""

    planes: Words  # high and low bits of each dimension, (2, words, vectors); 1 for +1, 0 for -1
    factor: Floats  # what a code is multiplied by
    common: Floats
    """m . x, the cosine with the mean times its length."""
    fine: NDArray[np.int8]
    """Each dimension of x - m by its deviation, in steps, (vectors, dimension)."""
    width: Floats  # of a step: STEPS of them are a vector's largest dimension


def encode(vectors: Vectors, centre: Floats, spread: Floats) -> Encoded:
    """The codes of vectors, (n, dimension), around their mean, by each dimension's deviation.

    Models have a few dimensions far wider than all others: steps of one width would be those.
    """
    common = vectors @ centre
    rest = vectors - centre
    high = rest >= 0
    even = rest / spread
    width = np.maximum(np.abs(even).max(1), EPSILON) / np.float32(STEPS)
    fine = np.rint(even / width[:, None]).astype(np.int8)
    np.abs(rest, out=rest)
    square = np.einsum("ij,ij->i", rest, rest)
    step = np.sqrt(square / np.float32(len(centre))) * np.float32(INNER)
    outer = rest >= step[:, None]
    # (x - m) . d: each |x - m| once, and twice more where the code is 3 or -3.
    along = rest.sum(1)
    along += 2 * np.einsum("ij,ij->i", rest, outer)
    planes = np.stack([_packed(high), _packed(outer == high)])
    return Encoded(planes, square / np.maximum(along, EPSILON), common, fine, width)


def _deviation(vectors: Vectors, centre: Floats) -> Floats:
    """The standard deviation of each dimension, by parts that stay in a core's cache."""
    square = np.zeros(len(centre), np.float32)
    for start in range(0, len(vectors), BATCH_VECTORS):
        rest = vectors[start : start + BATCH_VECTORS] - centre
        rest *= rest
        rest[0] += square
        square = rest.sum(0)
    deviation: Floats = np.sqrt(square / np.float32(len(vectors)))
    return deviation


def _packed(bits: NDArray[np.bool_]) -> Words:
    """Bits, (n, dimension), in words, (words, n); the last word ends with zeros."""
    octets = np.packbits(bits, axis=1)
    padded = np.zeros((len(bits), _words(bits.shape[1]) * (WORD // 8)), np.uint8)
    padded[:, : octets.shape[1]] = octets
    words: Words = padded.view(np.uint64).T
    return words


def _words(dim: int) -> int:
    return -(-dim // WORD)


class _Block:
    """Room for BLOCK vectors; memory grows by one of these, and nothing is ever moved."""

    def __init__(self, dim: int) -> None:
        self.count, words = 0, _words(dim)
        # In one piece: numpy asks for large pages, which are found faster, from 4 MB on.
        octets = 2 * words * BLOCK * (WORD // 8)
        piece = np.empty(octets + BLOCK * dim, np.int8)
        self.planes = piece[:octets].view(np.uint64).reshape(2, words, BLOCK)
        self.fine, self.width = piece[octets:].reshape(BLOCK, dim), np.empty(BLOCK, np.float32)
        self.factor, self.common = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)

    def add(self, encoded: Encoded) -> None:
        """Vectors that there is room for."""
        at = slice(self.count, self.count + len(encoded.width))
        self.planes[:, :, at] = encoded.planes
        self.fine[at], self.width[at] = encoded.fine, encoded.width
        self.factor[at], self.common[at] = encoded.factor, encoded.common
        self.count = at.stop

    def beside(self, places: Owners, query: Vectors) -> Floats:
        """Nearly exactly q . (x - m) of some vectors."""
        found: Floats = (self.fine[places].astype(np.float32) @ query) * self.width[places]
        return found


class _Question:
    """A query as a code: bits of (words, 1), and the numbers that make cosines of counts."""

    def __init__(self, query: Vectors, centre: Floats) -> None:
        rest = query - centre
        size = np.abs(rest)
        counted = size >= _threshold(size)
        self.signs, self.counted = _packed((rest >= 0)[None]), _packed(counted[None])
        self.factor = float(rest @ rest) / max(float(size[counted].sum()), float(EPSILON))
        self.dimensions = int(counted.sum())
        self.constant = float(rest @ centre)


def _threshold(size: Floats) -> float:
    """The size from which a dimension counts.

    Of all codes of -1, 0 and 1 that with the k largest is nearest in angle to the vector for
    which the sum of these, divided by the root of k, is largest.
    """
    largest = np.sort(size)[::-1]
    length = np.sqrt(np.arange(1, len(size) + 1))
    return float(largest[int(np.argmax(np.cumsum(largest) / length))])


class _Scratch:
    """Where the vectors of a block are counted; kept, since to ask for it anew takes time."""

    def __init__(self, words: int) -> None:
        self._words = np.empty((words, BLOCK), np.uint64)
        self._counts = np.empty((words, BLOCK), np.uint8)
        self._total = np.empty(BLOCK, np.uint16)  # 3 a dimension at most: up to 21,845 of them
        self._cosines = np.empty(BLOCK, np.float32)

    def cosines(self, block: _Block, question: _Question) -> Floats:
        """About the cosine of each vector of a block; valid until the next call."""
        count = block.count
        cosines = self._cosines[:count]
        # z . d is 3 for each dimension that counts, less 2 for each sign that differs, where
        # signs in the high plane count twice.
        np.multiply(self._differing(block, question), np.float32(-2 * question.factor), out=cosines)
        cosines += np.float32(3 * question.dimensions * question.factor)
        cosines *= block.factor[:count]
        cosines += block.common[:count]
        cosines += np.float32(question.constant)
        return cosines

    def _differing(self, block: _Block, question: _Question) -> NDArray[np.uint16]:
        """How many signs differ where they count, those of the high plane twice."""
        words, counts = self._words[:, : block.count], self._counts[:, : block.count]
        total = self._total[: block.count]
        total.fill(0)
        for plane in (HIGH, LOW):
            total += total
            np.bitwise_xor(block.planes[plane, :, : block.count], question.signs, out=words)
            np.bitwise_and(words, question.counted, out=words)
            np.bitwise_count(words, out=counts)
            _add_up(counts, total)
        return total


def _add_up(counts: NDArray[np.uint8], total: NDArray[np.uint16]) -> None:
    """Add counts of up to 64, (words, n), to totals, by threes first: a byte holds three."""
    third = -(-len(counts) // 3)
    for start in (third, 2 * third):
        more = counts[start : start + third]
        counts[: len(more)] += more
    for count in counts[:third]:
        total += count
