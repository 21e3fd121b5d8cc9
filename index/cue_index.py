"""Memories by their cues: an inverted index, and edges found for one question.

A score is the part of the question's cues, weighed by IDF, that a chunk has; dividing by length
found less. A cue that more than half of all chunks have surfaces nothing by itself.

Two kinds of edges are computed for each question and then dropped. *Discourse*: chunks one and two
places beside a hit in its event gain 0.4 and 0.2 of its score, and a chunk without cues of its own
has half of the best score in its event; an event is a run of a session without a pause of 30
minutes (`[cues] pause_minutes`). *Associative*: what shares a rare cue with one of the best five.
Discourse edges may lift a chunk above a hit, since that finds more (docs/BENCHMARKS.md); what
associative edges lead to comes after everything else.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.fields import UNNAMED
from index.postings import HALVES, Part, Postings

Numbers = NDArray[np.int64]
Scores = NDArray[np.float64]
Mask = NDArray[np.bool_]


# --- Memories by their cues ------------------------------------------------------------

COMMON = 0.5  # share of all memories; a cue that more have is of no use
FEW = 5  # in so few memories no cue is common
DISCOURSE = (0.4, 0.2)  # parts of a hit's score that its first and second neighbours get
INHERITED = 0.5  # part of the best score in its event that a memory without cues gets
SEEDS = 5  # best hits whose rare cues are followed
RARE = 20  # most memories that a rare cue may have; of few memories a twentieth, or two
LINKS = 8  # rarest cues of one hit that are followed


class CueRow(NamedTuple):
    """A live memory as the index is given it; `stamp` is when, in milliseconds."""

    seq: int
    place: int
    session: str
    stamp: int
    cues: bytes  # the numbers of its cues, each 4 bytes


@dataclass(frozen=True, slots=True)
class Edges:
    """Which edges a search follows from what it hits."""

    associative: bool = True
    discourse: bool = True


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a memory was found: cues of its own, or the memory that led to it by an edge."""

    cues: Sequence[int]
    """Numbers: its own that the question has, or the one that an associative edge shares."""
    edge: str = ""  # `discourse`, `event` or `associative`; empty for a hit of its own
    origin: int | None = None  # the seq of the memory that the edge comes from


@dataclass(frozen=True, slots=True)
class CueHits:
    """What a search found, best first, with scores of about 0 to 1; `explain` says why."""

    seqs: list[int]
    scores: list[float]
    explain: Callable[[int], Explanation]


class CueIndex:
    """Cue numbers to live memories, with who stands beside whom in an event.

    An event is a run of memories of one session without a pause longer than `pause`
    milliseconds; memories of no named session are each one of their own. Not safe for threads
    by itself.
    """

    def __init__(self, rows: Iterable[CueRow], pause: int) -> None:
        self._pause = pause
        given = sorted(rows, key=lambda row: (row.session, row.stamp, row.place, row.seq))
        self._cues = [row.cues for row in given]
        self._row = {row.seq: at for at, row in enumerate(given)}
        sizes = np.array([len(cues) // 4 for cues in self._cues], np.int32)
        terms = np.frombuffer(b"".join(self._cues), "<u4")
        weights = np.full(len(terms), HALVES, np.uint8)
        self._postings = Postings([Part(terms, weights, sizes)])
        self._seq = np.array([row.seq for row in given], np.int64)
        self._stamp = np.array([row.stamp for row in given], np.int64)
        self._live = np.ones(len(given), np.bool_)
        self._bare = sizes == 0
        self._threads: dict[str, list[tuple[int, int, int, int]]] = defaultdict(list)
        self._session = [row.session for row in given]
        self._thread = [(row.stamp, row.place, row.seq, at) for at, row in enumerate(given)]
        for key, session in zip(self._thread, self._session, strict=True):
            self._threads[session].append(key)
        self._chain(given)

    def _chain(self, given: Sequence[CueRow]) -> None:
        """Link sorted rows with those before and after, and number their events."""
        count = len(given)
        joined = np.zeros(count + 1, np.bool_)
        named = np.array([row.session != UNNAMED for row in given], np.bool_)
        same = [one.session == next_.session for one, next_ in pairwise(given)]
        close = np.diff(self._stamp) <= self._pause
        joined[1:count] = np.array(same, np.bool_) & close & named[1:]
        at = np.arange(count)
        self._before = np.where(joined[:count], at - 1, -1)
        self._after = np.where(joined[1:], at + 1, -1)
        self._event = np.cumsum(~joined[:count])
        self._last_event = count

    @property
    def size(self) -> int:
        """How many memories it holds."""
        return len(self._row)

    def needs_rebuild(self) -> bool:
        """Whether so much was removed that a new index is faster."""
        return 8 * (len(self._cues) - self.size) > len(self._cues)

    def __contains__(self, seq: int) -> bool:
        return seq in self._row

    # -- changes --

    def add(self, row: CueRow) -> None:
        """One more memory, wherever it belongs in its session."""
        at = len(self._cues)
        if at == len(self._live):
            self._grow()
        numbers = np.frombuffer(row.cues, "<u4")
        self._postings.add(at, numbers, np.full(len(numbers), HALVES, np.uint8))
        self._cues.append(row.cues)
        self._row[row.seq] = at
        self._seq[at], self._stamp[at] = row.seq, row.stamp
        self._live[at], self._bare[at] = True, not row.cues
        self._last_event += 1
        self._event[at] = self._last_event
        key = (row.stamp, row.place, row.seq, at)
        self._session.append(row.session)
        self._thread.append(key)
        thread = self._threads[row.session]
        place = bisect_left(thread, key)
        insort(thread, key)
        if row.session != UNNAMED:
            left = thread[place - 1][3] if place else -1
            right = thread[place + 1][3] if place + 1 < len(thread) else -1
            self._join(left, at)
            self._join(at, right)

    def _grow(self) -> None:
        """Make the arrays half as long again."""
        more = len(self._live) // 2 + 64
        for name, free in (("_seq", 0), ("_stamp", 0), ("_event", 0), ("_before", -1)):
            values = getattr(self, name)
            setattr(self, name, np.append(values, np.full(more, free, np.int64)))
        self._after = np.append(self._after, np.full(more, -1, np.int64))
        self._live = np.append(self._live, np.zeros(more, np.bool_))
        self._bare = np.append(self._bare, np.zeros(more, np.bool_))

    def remove(self, seq: int) -> None:
        """Remove a memory and link its neighbours with each other."""
        at = self._row.pop(seq, None)
        if at is None:
            return
        self._live[at] = self._bare[at] = False
        thread = self._threads[self._session[at]]
        del thread[bisect_left(thread, self._thread[at])]
        left, right = int(self._before[at]), int(self._after[at])
        self._before[at] = self._after[at] = -1
        if left >= 0:
            self._after[left] = -1
        if right >= 0:
            self._before[right] = -1
        if left >= 0 and right >= 0:
            self._join(left, right)

    def _join(self, left: int, right: int) -> None:
        """Link two rows that follow one another, in one event or in two."""
        if left < 0 or right < 0:
            return
        if self._stamp[right] - self._stamp[left] <= self._pause:
            self._after[left], self._before[right] = right, left
            self._number(right, int(self._event[left]))
        else:
            self._last_event += 1
            self._number(right, self._last_event)

    def _number(self, at: int, event: int) -> None:
        """Give a row and all rows after it in its event the same number."""
        while at >= 0 and self._event[at] != event:
            self._event[at] = event
            at = int(self._after[at])

    # -- searching --

    def search(
        self,
        numbers: Sequence[int | None],
        limit: int,
        edges: Edges,
        allowed: Callable[[Numbers], Mask] | None = None,
    ) -> CueHits:
        """Memories with some of the cues, and those that edges lead to; None is an unknown cue.

        `allowed` says which seqs may be returned; edges may start from others.
        """
        found = self._postings.of(numbers).of_rows(self._live)
        rows, term, counts = found.rows, found.term, found.counts
        rarity = np.log(1 + (self.size - counts + 0.5) / (counts + 0.5))
        whole = max(float(rarity.sum()), 1e-9)
        own: Scores = np.bincount(rows, rarity[term], minlength=len(self._live)) / whole
        common = (counts > FEW) & (counts > COMMON * self.size)
        if common.any():  # a common cue alone finds nothing
            rare = ~common[term]
            own *= np.bincount(rows[rare], minlength=len(self._live)) > 0
        scores = self._spread(own) if edges.discourse else own.copy()
        best = self._best(scores, limit, allowed)
        linked: dict[int, Explanation] = {}
        if edges.associative and len(best) < limit:
            linked = self._associate(own, scores, numbers)
            best = self._best(scores, limit, allowed)
        seqs = self._seq[best].tolist()
        rows_of = dict(zip(seqs, best.tolist(), strict=True))
        return CueHits(
            seqs,
            scores[best].round(6).tolist(),
            lambda seq: self._way(rows_of[seq], own, numbers, linked),
        )

    def _best(
        self, scores: Scores, limit: int, allowed: Callable[[Numbers], Mask] | None
    ) -> NDArray[np.intp]:
        """The rows with the highest scores, of equal ones the newer first."""
        found = np.flatnonzero(scores > 0)
        if allowed is not None:
            found = found[allowed(self._seq[found])]
        if len(found) > limit:
            values = scores[found]
            found = found[values >= np.partition(values, -limit)[-limit] - 1e-9]
        order = np.lexsort((-self._seq[found], -self._stamp[found], -scores[found].round(9)))
        return found[order[:limit]]

    def _spread(self, own: Scores) -> Scores:
        """Add to each score a part of the scores of its neighbours and its event."""
        own = self._inherited(own)
        scores: Scores = own.copy()
        hits = np.flatnonzero(own)
        for beside in (self._before, self._after):
            rows, gains = hits, own[hits]
            for part in DISCOURSE:
                rows = beside[rows]
                there = rows >= 0
                rows, gains = rows[there], gains[there]
                scores[rows] += part * gains  # no two have the same row beside them
        return scores

    def _inherited(self, own: Scores) -> Scores:
        """Memories without cues get a part of the best score in their event."""
        bare = np.flatnonzero(self._bare)
        if not len(bare):
            return own
        hits = np.flatnonzero(own)
        best = np.zeros(self._last_event + 1)
        np.maximum.at(best, self._event[hits], own[hits])
        inherited: Scores = own.copy()
        inherited[bare] = INHERITED * best[self._event[bare]]
        return inherited

    def _associate(
        self, own: Scores, scores: Scores, numbers: Sequence[int | None]
    ) -> dict[int, Explanation]:
        """Add, below all others, memories that share a rare cue with the best hits."""
        linked: dict[int, Explanation] = {}
        gains: dict[int, float] = {}
        most = min(RARE, max(2, self.size // 20), int(COMMON * self.size))
        for seed in self._best(own, SEEDS, None).tolist():
            known = [cue for cue in _numbers_of(self._cues[seed]) if cue not in numbers]
            found = self._postings.of(known).of_rows(self._live)
            counts = found.counts.tolist()
            rare = [at for at, count in enumerate(counts) if 1 < count <= most]
            for at in sorted(rare, key=lambda at: (counts[at], at))[:LINKS]:
                gain = float(own[seed]) / counts[at]
                for row in found.rows[found.term == at].tolist():
                    if not scores[row] and gain > gains.get(row, 0):
                        gains[row] = gain
                        linked[row] = Explanation([known[at]], "associative", int(self._seq[seed]))
        if gains:
            lowest = float(scores[scores > 0].min())
            for row, gain in gains.items():
                scores[row] = lowest * min(gain, 0.999)
        return linked

    def _way(
        self, at: int, own: Scores, numbers: Sequence[int | None], linked: dict[int, Explanation]
    ) -> Explanation:
        """Why a row was found."""
        if at in linked:
            return linked[at]
        if own[at] > 0:
            having = set(_numbers_of(self._cues[at]))
            return Explanation([cue for cue in numbers if cue is not None and cue in having])
        if self._bare[at]:
            known = slice(len(own))  # more may have come since
            event = np.flatnonzero((self._event == self._event[at])[known] & self._live[known])
            best = max(event.tolist(), key=lambda row: (own[row], self._earlier(row)), default=None)
            return Explanation([], "event", None if best is None else int(self._seq[best]))
        beside = [row for row in self._beside(at) if row < len(own) and own[row] > 0]
        origin = max(beside, key=lambda row: float(own[row]), default=None)
        return Explanation([], "discourse", None if origin is None else int(self._seq[origin]))

    def _earlier(self, at: int) -> tuple[int, ...]:
        """The greater, the earlier a row stands in its session, whenever it became known here."""
        return tuple(-part for part in self._thread[at][:3])

    def _beside(self, at: int) -> Iterator[int]:
        """The neighbours of a row in its event."""
        for chain in (self._before, self._after):
            row = at
            for _ in DISCOURSE:
                row = int(chain[row])
                if row < 0:
                    break
                yield row


def _numbers_of(cues: bytes) -> list[int]:
    numbers: list[int] = np.frombuffer(cues, "<u4").tolist()
    return numbers
