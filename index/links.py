"""Names, mentions and relations in memory, as far as recall needs them.

`Links` is made from rows of the file in one go and then kept up to date by the store
(store/sqlite/snapshots.py), always as of the same moment as the index of chunks. Nodes of the
graph are whole numbers: a chunk is its seq, entities are -1, -2, ... in the order in which they
became known here.

For each entity there are the chunks that mention it, newest first; for each chunk its entities;
for each node its relations, heaviest first: numbers in sorted blocks. A step of the graph looks at
the beginning of a list only, so a hub of 10,000 relations costs what any other node costs. Of
names there are only hashes and beginnings, which tell which of the hundreds of stretches of a text
are worth looking up.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.types import Incidence, LinkedRelation, RelationColumns, in_batches, milliseconds
from text import words

Numbers = NDArray[np.int64]
Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]
Nodes = Sequence[int] | Numbers
Ends = NDArray[np.int32]
Keep = Callable[[Numbers], Mask]

MIN_CHANGES = 1024  # fewer changes are never worth a rebuild
UNLIMITED = 1 << 31  # more than any list holds


class Links:
    """What leads from chunks to entities, from entities to chunks, and along relations.

    Not safe for threads by itself: it is read and changed under its index's lock.
    """

    def __init__(
        self,
        entities: Iterable[tuple[str, bool]],
        mentions: Iterable[Incidence],
        relations: RelationColumns,
    ) -> None:
        """Takes all entity ids with whether each is live, and the seqs that mention each entity."""
        self._node_of: dict[str | int, int] = {}
        self._ids: list[str] = []
        self._closed: set[int] = set()
        for entity_id, live in entities:
            node = self.node(entity_id)
            if not live:
                self._closed.add(node)
        who, where = _pairs(mentions, self.node)
        self._of_entity = _Lists(who, where, lambda seqs: (-seqs,))
        self._of_chunk = _Lists(where, who, lambda nodes: (-nodes,))
        self._relations = _Relations(relations, self.node)
        self._steps = _Lists(*self._relations.ends(), self._relations.order)
        self._size, self._changes = len(who) + self._relations.count, 0

    # -- being kept up to date --

    def needs_rebuild(self) -> bool:
        """Whether so much has changed that a new one is faster."""
        return self._changes > max(MIN_CHANGES, self._size // 8)

    def entity(self, entity_id: str, live: bool) -> None:
        """Add an entity, or set whether it is live."""
        node = self.node(entity_id)
        if live:
            self._closed.discard(node)
        else:
            self._closed.add(node)

    def mention(self, seq: int, entity_ids: Iterable[str]) -> None:
        """Set the entities that a chunk mentions; where one is gone, a rebuild is needed."""
        nodes = [self.node(entity_id) for entity_id in entity_ids]
        known = set(self.mentioned([seq])[1].tolist())
        for node in nodes:
            if node not in known:
                self._of_chunk.add(seq, node)
                self._of_entity.add(node, seq)
                self._changes += 1
        if known.difference(nodes):
            self._changes += UNLIMITED

    def relation(self, row: LinkedRelation) -> None:
        """Add a relation, or change when it is valid."""
        place = self._relations.put(row, self.node)
        self._changes += 1
        if place is not None:
            for node in {self.node(row.source), self.node(row.target)}:
                self._steps.add(node, place)

    def drop_relation(self, relation_id: int) -> None:
        """Remove a relation."""
        self._relations.drop(relation_id)
        self._changes += 1

    # -- nodes --

    def node(self, end: str | int) -> int:
        """The node of an entity by its id, which may be new; a chunk's is its seq."""
        node = self._node_of.get(end)
        if node is not None:
            return node
        if isinstance(end, int):
            return end
        self._node_of[end] = node = -1 - len(self._ids)
        self._ids.append(end)
        return node

    def entity_id(self, node: int) -> str:
        return self._ids[-1 - node]

    def known(self, entity_id: str) -> int | None:
        """The node of an entity; None for an id that no entity ever had."""
        return self._node_of.get(entity_id)

    def is_live(self, node: int) -> bool:
        """Whether an entity is live now."""
        return node not in self._closed

    # -- following links --

    def mentioned(self, seqs: Nodes) -> tuple[Numbers, Numbers]:
        """The entities that chunks mention, as nodes, and for each the place of its chunk."""
        return self._of_chunk.first(seqs, UNLIMITED)

    def mentioning(self, nodes: Nodes, limit: int, keep: Keep) -> tuple[Numbers, Numbers]:
        """The newest chunks that mention entities, by their seqs, of those that are to be kept.

        Each entity's newest first; and for each the place of its entity among `nodes`.
        """
        return self._of_entity.first(nodes, limit, keep)

    def steps(self, nodes: Numbers, at: int, limit: int) -> tuple[Numbers, Numbers, Floats]:
        """The heaviest relations of each node, both ways, valid at a moment (in milliseconds).

        For each: the place of its node among `nodes`, the other node, and the weight.
        """
        holding = partial(self._relations.holding, at=at)
        places, found = self._steps.first(nodes, limit, holding)
        others = self._relations.across(found, nodes[places])
        return places, others, self._relations.weight(found)


class Spellings:
    """Which texts may be names, by their hashes: no name is missed, few other texts are taken.

    It saves looking up in the database the hundreds of phrases of a text that are no names.
    """

    def __init__(self, keys: Iterable[str], *, starts: bool = True) -> None:
        """`starts`: whether to keep the beginnings of names, which take the most memory here."""
        found, self.starts = [], set[str]()
        """The beginnings of names: a phrase that begins otherwise is no name."""
        for names in in_batches(keys):
            found.append(np.fromiter(map(hash, names), np.int64, len(names)))
            if starts:
                self.starts.update(map(words.name_start, names))
        self.has_starts = starts
        self._sorted = np.sort(np.concatenate([np.zeros(0, np.int64), *found]))
        self._later: set[int] = set()
        self._lock = threading.Lock()

    def add(self, keys: Iterable[str]) -> None:
        """Add names; safe for threads."""
        names = list(keys)
        with self._lock:
            if self.has_starts:
                self.starts.update(map(words.name_start, names))
            self._later.update(map(hash, names))
            if len(self._later) > max(MIN_CHANGES, len(self._sorted) // 8):
                later = np.fromiter(self._later, np.int64)
                self._sorted = np.sort(np.concatenate((self._sorted, later)))
                self._later = set()

    def among(self, keys: Iterable[str]) -> list[str]:
        """Those of the keys that are names."""
        asked = list(keys)
        later, block = (
            self._later,
            self._sorted,
        )  # in this order: names move this way
        hashes = list(map(hash, asked))
        found = [key for key, each in zip(asked, hashes, strict=True) if each in later]
        if len(block):
            wanted = np.array(hashes, np.int64)
            at = np.minimum(np.searchsorted(block, wanted), len(block) - 1)
            found += [asked[place] for place in np.flatnonzero(block[at] == wanted)]
        return list(dict.fromkeys(found))


class _Lists:
    """For each key a sorted list: one sorted block, and later values beside it."""

    def __init__(
        self, keys: Numbers, values: Numbers, order: Callable[[Numbers], tuple[NDArray[Any], ...]]
    ) -> None:
        """Takes a key for each value; `order` gives what the values of one key are sorted by."""
        self._order = order
        sorting = np.lexsort((*order(values), keys))
        self._values = values[sorting].astype(np.int32)
        unique, starts = np.unique(keys[sorting], return_index=True)
        self._keys = unique.astype(np.int32)
        self._starts = np.append(starts, len(keys))
        self._later: dict[int, list[int]] = {}

    def add(self, key: int, value: int) -> None:
        self._later.setdefault(key, []).append(value)

    def first(self, keys: Nodes, limit: int, keep: Keep | None = None) -> tuple[Numbers, Numbers]:
        """The first values of each key that are to be kept, and for each the place of its key."""
        places, values = self._beginning(np.asarray(keys, np.int64), limit)
        if keep is None or (kept := keep(values)).all():
            return places, values
        if np.bincount(places).max() == limit:  # what is filtered out must not count
            places, values = self._beginning(np.asarray(keys, np.int64), UNLIMITED)
            kept = keep(values)
        places, values = places[kept], values[kept]
        first = _rank(places) < limit
        return places[first], values[first]

    def _beginning(self, keys: Numbers, limit: int) -> tuple[Numbers, Numbers]:
        """The first values of each key, and for each the place of its key."""
        places, values = self._in_block(keys, limit)
        later = [(place, self._later.get(key, ())) for place, key in enumerate(keys.tolist())]
        if not any(added for _, added in later):
            return places, values
        places = np.append(places, [place for place, added in later for _ in added])
        values = np.append(values, [value for _, added in later for value in added])
        places, values = places.astype(np.int64), values.astype(np.int64)
        sorting = np.lexsort((*self._order(values), places))
        places, values = places[sorting], values[sorting]
        first = _rank(places) < limit
        return places[first], values[first]

    def _in_block(self, keys: NDArray[Any], limit: int) -> tuple[Numbers, Numbers]:
        if not len(self._keys):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        keys = keys.astype(np.int32)  # else all that are here would be converted
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        starts = self._starts[at]
        sizes = np.minimum(self._starts[at + 1] - starts, limit) * (self._keys[at] == keys)
        places = np.repeat(np.arange(len(keys)), sizes)
        return places, self._values[starts[places] + _rank(places)].astype(np.int64)


class _Relations:
    """Relations by their places here, in the order in which they became known."""

    def __init__(self, rows: RelationColumns, node: Callable[[str | int], int]) -> None:
        parts = [_columns(*each) for each in rows.relations] or [_columns("", "", "", "")]
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        self._id, self._weight, self._since, self._until = (column[order] for column in columns)
        self.count = self._sorted = len(self._id)
        self._source, self._target = (
            self._ends(each, node) for each in (rows.sources, rows.targets)
        )
        self._later: dict[int, int] = {}

    def _ends(self, incidences: Iterable[Incidence], node: Callable[[str | int], int]) -> Ends:
        """One end of each relation."""
        nodes, ids = _pairs(incidences, node)
        ends = np.empty(self.count, np.int32)
        ends[np.searchsorted(self._id, ids)] = nodes
        return ends

    def put(self, row: LinkedRelation, node: Callable[[str | int], int]) -> int | None:
        """The place of a new relation; None where only the times of a known one changed."""
        since, until = milliseconds([row.valid_from])[0], milliseconds([row.valid_until])[0]
        known = self._known(row.id)
        if known is not None:
            self._since[known], self._until[known] = since, until
            return None
        place = self._later[row.id] = self.count
        if place == len(self._id):
            self._grow()
        self.count += 1
        self._id[place], self._weight[place] = row.id, row.weight
        self._source[place], self._target[place] = node(row.source), node(row.target)
        self._since[place], self._until[place] = since, until
        return place

    def _grow(self) -> None:
        more = max(64, len(self._id))
        for name in _COLUMNS:
            old = getattr(self, name)
            setattr(self, name, np.append(old, np.zeros(more, old.dtype)))

    def _known(self, relation_id: int) -> int | None:
        """The place of a relation: those that were here first stand in the order of their ids."""
        place = int(np.searchsorted(self._id[: self._sorted], relation_id))
        if place < self._sorted and self._id[place] == relation_id:
            return place
        return self._later.get(relation_id)

    def drop(self, relation_id: int) -> None:
        place = self._known(relation_id)
        if place is not None:
            self._until[place] = self._since[place]

    def ends(self) -> tuple[Numbers, Numbers]:
        """The nodes at both ends of each relation, and the place of that relation."""
        places = np.arange(self.count)
        loops = self._source == self._target
        nodes = np.concatenate((self._source, self._target[~loops]))
        return nodes, np.concatenate((places, places[~loops]))

    def across(self, places: Numbers, nodes: Numbers) -> Numbers:
        """The other end of each relation."""
        others: Numbers = self._source[places].astype(np.int64) + self._target[places] - nodes
        return others

    def order(self, places: Numbers) -> tuple[NDArray[Any], ...]:
        """The heaviest first, and of equal weight the older."""
        return self._id[places], -self._weight[places]

    def weight(self, places: Numbers) -> Floats:
        return self._weight[places]

    def holding(self, places: Numbers, at: int) -> Mask:
        """Which of them are valid at a moment."""
        return (self._since[places] <= at) & (self._until[places] > at)


_COLUMNS = ("_id", "_source", "_target", "_weight", "_since", "_until")


def _columns(
    ids: str, weights: str, since: str, until: str
) -> tuple[Numbers, Floats, Numbers, Numbers]:
    """Numbers of some relations, given with commas between them."""
    return (
        np.fromstring(ids, np.int64, sep=","),
        np.array(list(map(float, weights.split(","))) if ids else (), np.float32),
        milliseconds(since.split(",") if ids else ()),
        milliseconds(until.split(",") if ids else ()),
    )


def _pairs(
    incidences: Iterable[Incidence], node: Callable[[str | int], int]
) -> tuple[Numbers, Numbers]:
    """One array of nodes and one of numbers, a pair for each incidence."""
    nodes, sizes, numbers = [], [], []
    for end, listed in incidences:
        nodes.append(node(end))
        sizes.append(listed.count(",") + 1)
        numbers.append(listed)
    found = np.fromstring(",".join(numbers), np.int64, sep=",")
    return np.repeat(np.array(nodes, np.int64), np.array(sizes, np.intp)), found


def _rank(places: Numbers) -> Numbers:
    """How many equal numbers stand before each of some sorted numbers.

    >>> _rank(np.array([2, 2, 2, 5, 7, 7])).tolist()
    [0, 1, 2, 0, 0, 1]
    """
    ranks: Numbers = np.arange(len(places)) - np.searchsorted(places, places)
    return ranks
