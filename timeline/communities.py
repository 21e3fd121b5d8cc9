"""Groups of entries that are all alike, which may overlap: clique percolation.

Palla, Derényi, Farkas and Vicsek, Nature 435 (2005): a community is a union of cliques of k nodes
each of which is reached from the others through cliques that share k - 1 nodes. Maximal cliques
are found by Bron and Kerbosch with a pivot, in degeneracy order, on sets of nodes that are
integers whose bits are the nodes. There may be millions of cliques, so they are found and joined in
bundles. A test compares the result with networkx, which has no deadline, keeps every maximal
clique and compares all that share an entry: near-identical entries make that hopeless.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from core.types import Vectors
from index.calibration import Scripts, Zeros, similarity

Member = TypeVar("Member", int, str)

MAX_BUNDLES = 100_000
"""Bundles in memory at a time: 100 MB for 5,000 nodes, since a bundle is two sets of nodes."""
SAME_GROUP = 0.5
"""A group keeps its id when at least this part of all its members, old and new, stayed."""
_ROWS = 64  # vectors that are compared with all others at once; a multiple of 8


class TooDense(Exception):
    """The communities of a graph were not found within the time or memory allowed."""

    def __init__(self, cliques: int, done: int, nodes: int) -> None:
        self.cliques, self.done, self.nodes = cliques, done, nodes
        super().__init__(f"{cliques} bundles of cliques found around {done} of {nodes} nodes")


@dataclass(slots=True)
class _Progress:
    """How far a search got, and when it has to stop."""

    nodes: int
    deadline: float | None
    cliques: int = 0
    done: int = 0

    def check(self, bundles: int = 0) -> None:
        late = self.deadline is not None and time.monotonic() >= self.deadline
        if late or bundles > MAX_BUNDLES:
            raise TooDense(self.cliques, self.done, self.nodes)


# --- Who is near whom ------------------------------------------------------------------


def edges(
    vectors: Vectors,
    scripts: Scripts,
    zeros: Zeros,
    threshold: float,
    deadline: float | None = None,
) -> list[int]:
    """For each vector the set of others that are at least `threshold` similar to it.

    Similarity is that of calibration.py, with the zero of each pair's scripts. Rows are compared
    in blocks, and what is kept of n vectors is n bits each. TooDense past the deadline.
    """
    count = len(vectors)
    progress = _Progress(count, deadline)
    bits = np.zeros((count, -(-count // 8)), dtype=np.uint8)
    for first in range(0, count, _ROWS):
        progress.check()
        rows = slice(first, first + _ROWS)
        zero = zeros[scripts[rows, None], scripts[first:]]
        near = np.triu(similarity(vectors[rows], vectors[first:], zero) >= threshold, 1)
        byte = first // 8
        bits[rows, byte:] |= np.packbits(near, axis=1, bitorder="little")
        # The same pairs seen from the other side, so that rounding cannot make them differ.
        mirrored = np.packbits(near.T, axis=1, bitorder="little")
        bits[first:, byte : byte + mirrored.shape[1]] |= mirrored
    return [int.from_bytes(row.tobytes(), "little") for row in bits]


# --- Communities -----------------------------------------------------------------------


def communities(
    neighbours: Sequence[int], k: int, deadline: float | None = None
) -> list[list[int]]:
    """The communities of cliques of k nodes, the largest first, each with its nodes in order.

    Bit j of `neighbours[i]` says that i and j are joined, and so does bit i of `neighbours[j]`.
    TooDense when `time.monotonic()` passes the deadline or there are too many cliques.

    >>> communities([0b0110, 0b1101, 0b1011, 0b0110], 3)
    [[0, 1, 2, 3]]
    """
    if k < 2:
        raise ValueError(f"k must be 2 or more, not {k}")
    progress = _Progress(len(neighbours), deadline)
    order = _core(neighbours, k - 1, progress)
    progress.done = len(neighbours) - len(order)
    found: list[list[int]] = []
    for part in _components(neighbours, order, progress):
        found += _in_component(neighbours, part, k, progress)
    return sorted(found, key=lambda members: (-len(members), members))


def _core(neighbours: Sequence[int], degree: int, progress: _Progress) -> list[int]:
    """The nodes that are left when those with fewer neighbours are taken away again and again.

    In the order in which the node with the fewest neighbours goes first: few come after any.
    """
    gone = 2 * len(neighbours)
    degrees = np.array([bits.bit_count() for bits in neighbours], dtype=np.int64)
    order: list[int] = []
    reached = False
    for _ in neighbours:
        progress.check()
        node = int(degrees.argmin())
        reached = reached or bool(degrees[node] >= degree)
        if reached:
            order.append(node)
        degrees[_members(neighbours[node])] -= 1
        degrees[node] = gone
    return order


def _components(
    neighbours: Sequence[int], order: Sequence[int], progress: _Progress
) -> Iterator[list[int]]:
    """The nodes of each connected part, in the order given."""
    rank = {node: at for at, node in enumerate(order)}
    left = sum(1 << node for node in order)
    for node in order:
        if not left >> node & 1:
            continue
        left ^= 1 << node
        part, waiting = [], [node]
        while waiting:
            progress.check()
            part.append(waiting.pop())
            reached = neighbours[part[-1]] & left
            left ^= reached
            waiting += _members(reached).tolist()
        yield sorted(part, key=rank.__getitem__)


class _Bundle(NamedTuple):
    """All cliques of k nodes that are the `shared` ones and one of the others, each joined to all.

    They share k - 1 nodes, so they are of one community, whatever larger cliques they are part of.
    """

    shared: int
    others: int


def _in_component(
    neighbours: Sequence[int], part: Sequence[int], k: int, progress: _Progress
) -> list[list[int]]:
    local = _renumbered(neighbours, part)
    done = progress.done
    bundles = []
    for bundle in _bundles(local, k, progress):
        bundles.append(bundle)
        progress.cliques += 1
        progress.check(len(bundles))
    progress.done = done + len(part)
    joined = _joined(bundles, local, k, progress)
    return [sorted(part[at] for at in _members(members).tolist()) for members in joined]


def _renumbered(neighbours: Sequence[int], part: Sequence[int]) -> list[int]:
    """The neighbours within a part of the graph, whose nodes are numbered in its order."""
    numbers = np.full(len(neighbours), len(part), dtype=np.int64)
    numbers[list(part)] = range(len(part))
    local = []
    for node in part:
        row = np.zeros(len(part) + 1, dtype=np.uint8)  # the last is for nodes elsewhere
        row[numbers[_members(neighbours[node])]] = 1
        packed = np.packbits(row[:-1], bitorder="little")
        local.append(int.from_bytes(packed.tobytes(), "little"))
    return local


def _bundles(neighbours: Sequence[int], k: int, progress: _Progress) -> Iterator[_Bundle]:
    """Bundles that hold every clique of k nodes.

    This is the search of Bron and Kerbosch for maximal cliques, ended where a clique has k - 1
    nodes: how it goes on from there, of which there may be any number of ways, makes no difference.
    """
    waiting = [_Search(0, (1 << len(neighbours)) - 1, 0)]
    while waiting:
        progress.check()
        clique, open_, seen = waiting.pop()
        size = clique.bit_count()
        progress.done += size == 1
        if size + open_.bit_count() < k:
            continue
        branches = open_ & ~_pivot(neighbours, open_, seen)
        if branches and size == k - 1:
            yield _Bundle(clique, open_)
            continue
        while branches:
            low = branches & -branches
            near = neighbours[low.bit_length() - 1]
            waiting.append(_Search(clique | low, open_ & near, seen & near))
            branches, open_, seen = branches ^ low, open_ ^ low, seen | low


class _Search(NamedTuple):
    """A clique, the nodes that may be added to it, and those with which it was looked for."""

    clique: int
    open: int
    seen: int


def _pivot(neighbours: Sequence[int], open_: int, seen: int) -> int:
    """The neighbours of the node that spares the search most of the open nodes."""
    best, most = 0, -1
    size = open_.bit_count()
    for nodes, enough in ((seen, size), (open_, size - 1)):
        while nodes:
            low = nodes & -nodes
            nodes ^= low
            near = neighbours[low.bit_length() - 1]
            spared = (near & open_).bit_count()
            if spared > most:
                best, most = near, spared
            if spared >= enough:
                return near
    return best


def _joined(
    bundles: Sequence[_Bundle], neighbours: Sequence[int], k: int, progress: _Progress
) -> Iterator[int]:
    """The unions of bundles that are reached from one another over k - 1 shared nodes."""
    nodes = [_members(shared | others).tolist() for shared, others in bundles]
    holding: dict[int, set[int]] = defaultdict(set)  # by node, the bundles not reached yet
    for number, members in enumerate(nodes):
        progress.check()
        for node in members:
            holding[node].add(number)
    for seed in range(len(bundles)):
        if seed not in holding[nodes[seed][0]]:
            continue
        union, waiting = 0, [seed]
        while waiting:
            number = waiting.pop()
            bundle = bundles[number]
            union |= bundle.shared | bundle.others
            near = [
                other
                for other in _candidates(nodes[number], holding, k)
                if _linked(bundle, bundles[other], neighbours, k, progress)
            ]
            for other in near:
                for node in nodes[other]:
                    holding[node].discard(other)
            waiting += near
        yield union


def _candidates(nodes: Sequence[int], holding: Mapping[int, Set[int]], k: int) -> set[int]:
    """The bundles not reached yet that may share k - 1 of these nodes.

    Such a bundle has one at least of any of these nodes that leave out only k - 2. Those that
    stand in the most bundles are left out.
    """
    rare = sorted(nodes, key=lambda node: len(holding[node]))[: len(nodes) - k + 2]
    return set().union(*(holding[node] for node in rare))


def _linked(
    one: _Bundle, other: _Bundle, neighbours: Sequence[int], k: int, progress: _Progress
) -> bool:
    """Whether cliques of two bundles share k - 1 nodes, or are the same."""
    progress.check()
    common = (one.shared | one.others) & (other.shared | other.others)
    if common.bit_count() < k - 1:
        return False
    # These are joined with all that is common, and one another.
    sure = common & (one.shared | other.shared)
    return _has_clique(common ^ sure, k - 1 - sure.bit_count(), neighbours, progress)


def _has_clique(nodes: int, size: int, neighbours: Sequence[int], progress: _Progress) -> bool:
    while size > 1 and nodes.bit_count() >= size:
        progress.check()
        low = nodes & -nodes
        nodes ^= low
        near = nodes & neighbours[low.bit_length() - 1]
        if _has_clique(near, size - 1, neighbours, progress):
            return True
    return size <= 0 or (size == 1 and nodes != 0)


def _members(bits: int) -> NDArray[np.int64]:
    """The nodes of a set, in order."""
    octets = np.frombuffer(bits.to_bytes(-(-bits.bit_length() // 8), "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(octets, bitorder="little"))


# --- The same groups again -------------------------------------------------------------


def stable_ids(
    old: Mapping[str, Set[Member]], new: Sequence[Set[Member]], fresh: Callable[[], str]
) -> list[str]:
    """An id for each new group: that of the old group it continues, else a fresh one.

    Pairs of groups that have at least SAME_GROUP of all their members in common are taken by
    how much they have in common; each id goes to one group.

    >>> stable_ids({"g1": {1, 2, 3}}, [{8, 9}, {1, 2, 3, 4}], lambda: "g2")
    ['g2', 'g1']
    """
    pairs = sorted(_overlaps(old, new), key=lambda pair: (-pair[0], sorted(new[pair[1]]), pair[2]))
    ids: dict[int, str] = {}
    used: set[str] = set()
    for _, number, known in pairs:
        if number not in ids and known not in used:
            ids[number] = known
            used.add(known)
    return [ids.get(number) or fresh() for number in range(len(new))]


def _overlaps(
    old: Mapping[str, Set[Member]], new: Sequence[Set[Member]]
) -> Iterator[tuple[float, int, str]]:
    """How much each new group and an old one have in common, if it is enough."""
    holding: dict[Member, list[str]] = defaultdict(list)
    for known, members in old.items():
        for member in members:
            holding[member].append(known)
    for number, group in enumerate(new):
        shared = Counter(known for member in group for known in holding.get(member, ()))
        for known, count in shared.items():
            overlap = count / (len(group) + len(old[known]) - count)
            if overlap >= SAME_GROUP:
                yield overlap, number, known
