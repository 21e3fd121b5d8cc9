"""What the benchmarks make up: words, memories, questions, and models that need no files."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

import _root  # noqa: F401 - makes the modules one folder up importable
from core.types import Vectors
from embedder import Embedder

BATCH_ITEMS = 500  # memories of one remember_many; questions whose vectors are kept at a time
TAIL = 40  # the last characters of a text, by which it is known: others may be put before it

Ints = NDArray[np.int32]


# --- Words -----------------------------------------------------------------------------

COMMON = """
    the of and to in a is that for it was on are as with they at be this from have or by one had
    not but what all were when we there can an your which their said if do will each about how up
    out them then she many some so these would other into has more her two like him see time
    could no make than first been its who now people my made over did down only way find use may
    after day new meeting plan because good same before right
"""
COMMON_CHINESE = (
    "的 了 在 是 和 我们 也 这个 有 不 就 都 说 要 会 到 今天 已经 项目 可以 没有 问题 时候 工作"
)
ONSETS = """
    b bl br c ch cl cr d dr f fl fr g gl gr h j k l m n p ph pl pr qu r s sc sh sl sp st str t th
    tr v w z
"""
VOWELS = "a e i o u ai ea ee ou y"
CODAS = "n r l s t m ck nd ng nt st rd x p"
HAN = [bytes((0xB0 + at // 94, 0xA1 + at % 94)).decode("gb2312") for at in range(3755)]
"""The common characters, of the first level of GB 2312."""


def _english_words(rng: np.random.Generator, count: int) -> list[str]:
    """Words that look like English ones: common ones first, then ever longer ones."""
    syllables = [
        onset + vowel + coda
        for onset in ONSETS.split()
        for vowel in VOWELS.split()
        for coda in ("", *CODAS.split())
    ]
    picks = rng.integers(len(syllables), size=(2 * count, 3)).tolist()
    made = (
        "".join(syllables[pick] for pick in row[: 1 + 3 * at // (2 * count)])
        for at, row in enumerate(picks)
    )
    return list(dict.fromkeys([*COMMON.split(), *made]))[:count]


def _chinese_words(rng: np.random.Generator, count: int) -> list[str]:
    """Words of two characters, of which some are common and some are rare."""
    characters = rng.permutation(HAN).tolist()
    picks = _zipf(rng, len(HAN), (2 * count, 2)).tolist()
    made = (characters[first] + characters[second] for first, second in picks)
    return list(dict.fromkeys([*COMMON_CHINESE.split(), *made]))[:count]


def _zipf(rng: np.random.Generator, count: int, size: tuple[int, int]) -> Ints:
    """Numbers below `count`, each as often as the word of that rank is used."""
    share = np.cumsum(1 / (np.arange(count) + 2.7))
    picks = np.searchsorted(share, rng.random(size) * share[-1])
    return np.asarray(np.minimum(picks, count - 1), np.int32)


# --- Memories and questions ------------------------------------------------------------

NEW_ENTITIES = 0.73  # by each memory
RELATIONS = 3  # said by each memory; those said again count once
SESSION = 20  # memories
VERBS = ("depends_on", "works_with", "owns", "part_of", "competes_with", "decided_by")
TAGS = ("trading", "planning", "family", "travel", "research", "code", "health", "house", "music")
MOVES = ("建仓", "加仓", "减仓", "清仓")
BEGIN = datetime(2024, 1, 1, 8, tzinfo=timezone.utc)
ENGLISH, CHINESE, BOTH = range(3)
ASKED = (
    (ENGLISH, "{a} {b}"),
    (BOTH, "{name}"),
    (CHINESE, "{code} 建仓"),
    (CHINESE, "{x}{y}"),
    (ENGLISH, "what did we decide about {name} and the {a} {b} after the {c} meeting?"),
    (BOTH, "{digits}"),
    (CHINESE, "关于{name}的{x}和{y}，上次是怎么决定的？"),
    (BOTH, "{a} {x}"),
)
"""The kinds of questions, and the language of the memories they ask for."""


class Question(NamedTuple):
    text: str
    about: int  # the memory it asks for


class Corpus:
    """Made-up memories by their number, and questions about them; the same for a seed.

    >>> Corpus(20, seed=1).memory(7) == Corpus(20, seed=1).memory(7)
    True
    """

    def __init__(self, size: int, seed: int) -> None:
        self.size, self._seed = size, seed
        rng = np.random.default_rng(seed)
        words = int(120 * size**0.5)  # twice as much text has 1.4 times as many different words
        self._english = _english_words(rng, max(words, 600))
        self._chinese = _chinese_words(rng, max(words // 2, 300))
        self._picked = (
            _zipf(rng, len(self._english), (size, 20)),
            _zipf(rng, len(self._chinese), (size, 22)),
        )
        known = NEW_ENTITIES * np.arange(size)
        self._earlier = (known * rng.power(0.6, size)).astype(np.int32)
        # Much leads to a few, and most to the first.
        self._others = (known[:, None] * rng.power(0.35, (size, RELATIONS))).astype(np.int32)
        self._spelled = rng.integers(1 << 30, size=(int(NEW_ENTITIES * size) + 1, 4))

    # -- memories --

    def memories(self) -> Iterator[list[dict[str, Any]]]:
        """All of them, in batches."""
        for start in range(0, self.size, BATCH_ITEMS):
            yield [self.memory(at) for at in range(start, min(start + BATCH_ITEMS, self.size))]

    def memory(self, at: int) -> dict[str, Any]:
        """One memory, as remember_many takes it."""
        about, new, session = self.about(at), self._new(at), at // SESSION
        return {
            "content": self._text(at, about[0]),
            "source": f"agent {at % 7}",
            "session_id": f"session {session}",
            "timestamp": (BEGIN + timedelta(hours=5 * session, minutes=at % SESSION)).isoformat(),
            "importance": at * 37 % 100 / 100,
            "tags": [TAGS[session % len(TAGS)]],
            "entities": [self._entity(each) if each in new else self.named(each) for each in about],
            "relations": self._relations(at, about[0]),
        }

    def about(self, at: int) -> list[int]:
        """The entities of a memory: a new one if any, and one that is known."""
        return list(dict.fromkeys([*self._new(at), int(self._earlier[at])]))

    def _new(self, at: int) -> range:
        return range(int(NEW_ENTITIES * at), int(NEW_ENTITIES * (at + 1)))

    def _relations(self, at: int, number: int) -> list[dict[str, Any]]:
        others = dict.fromkeys(self._others[at].tolist())
        return [
            {
                "source_id": self.named(number),
                "target_id": self.named(other),
                "relation": VERBS[(at + other) % len(VERBS)],
                "weight": (at * 31 + other * 17) % 101 / 100,
            }
            for other in others
            if other != number
        ]

    def _text(self, at: int, number: int) -> str:
        english, chinese = self._said(at)
        name = self.named(number)
        if number % 3 == 0:
            name += f" {MOVES[at % 4]} {at % 97}.{at % 89:02d}"
        if at % 3 == ENGLISH:
            return f"{' '.join(english[:9]).capitalize()} {name} {' '.join(english[9:])}."
        first, second, third = (
            "".join(chinese[start:end]) for start, end in ((0, 8), (8, 15), (15, 22))
        )
        if at % 3 == CHINESE:
            return f"{first}，{name}{second}。{third}。"
        return f"{name}: {' '.join(english[:10])}，{first}。"

    def _said(self, at: int) -> tuple[list[str], list[str]]:
        english, chinese = (picked[at].tolist() for picked in self._picked)
        return [self._english[each] for each in english], [self._chinese[each] for each in chinese]

    # -- entities --

    def named(self, number: int) -> str:
        """The id of an entity: a stock code, two English words or three characters."""
        picks = self._spelled[number].tolist()
        if number % 3 == 0:
            return f"{'sh' if number % 2 else 'sz'}{600000 + number // 3}"
        if number % 3 == 1:
            return " ".join(self._rare(pick).title() for pick in picks[:2])
        return "".join(HAN[pick % len(HAN)] for pick in picks[:3])

    def _rare(self, pick: int) -> str:
        common = len(self._english) // 4
        return self._english[common + pick % (len(self._english) - common)]

    def _entity(self, number: int) -> dict[str, Any]:
        picks, known = self._spelled[number].tolist(), {"id": self.named(number)}
        if number % 3 == 0:
            name = "".join(HAN[pick % len(HAN)] for pick in picks)
            return {**known, "kind": "stock", "name": name}
        if number % 3 == 1:
            alias = f"{self._rare(picks[2])}{number % 977}"
            return {**known, "kind": "project", "aliases": [alias]}
        return {**known, "kind": "person"}

    # -- questions --

    def questions(self, count: int) -> list[Question]:
        """Different questions of every kind in turn; fewer where there is not enough to ask."""
        rng = np.random.default_rng((self._seed, 1))
        found: dict[str, Question] = {}
        for attempt in range(20 * count):
            language, form = ASKED[attempt % len(ASKED)]
            at = min(int(rng.integers(self.size)) // 3 * 3 + language, self.size - 1)
            text = form.format(**self._parts(at, int(rng.integers(1 << 20))))
            found.setdefault(text, Question(text, at))
            if len(found) == count:
                break
        return list(found.values())

    def _parts(self, at: int, pick: int) -> dict[str, str]:
        """What a question about a memory may have in it."""
        english, chinese = self._said(at)
        solid = [word for word in english[:10] if word not in COMMON.split()] or english
        a, b, c = (solid[(pick + step) % len(solid)] for step in range(3))
        first, number = pick % 7, self.about(at)[0]
        code = self.named(number - number % 3)
        names = {"name": self.named(number), "code": code, "digits": code[2:]}
        return {"a": a, "b": b, "c": c, "x": chinese[first], "y": chinese[first + 1], **names}


# --- Models ----------------------------------------------------------------------------


class MadeUpVectors(ABC):
    """Stands for a model whose vectors are made up."""

    def fits(self, text: str) -> bool:
        return True

    def passages(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self._placed(text) for text in texts])

    @abstractmethod
    def _placed(self, text: str) -> Vectors:
        """The vector of a text, of length 1."""


class ClusteredVectors(MadeUpVectors):
    """Texts have vectors in clusters, questions near the text they ask for."""

    name = "benchmark/vectors"

    def __init__(self, size: int, dim: int, seed: int, asked: Mapping[str, str]) -> None:
        self.dim, self._seed = dim, seed
        rng = np.random.default_rng((seed, 2))
        centres = rng.standard_normal((max(200, size // 250), dim))
        centres /= np.linalg.norm(centres, axis=1, keepdims=True)
        common = rng.standard_normal(dim)
        # Models put all texts into one corner of their space.
        self._centres = centres + 1.2 * common / np.linalg.norm(common)
        self._asked = {question: self._near(text, question) for question, text in asked.items()}

    def query(self, text: str) -> Vectors:
        vector = self._asked.get(text)
        return self._placed(text) if vector is None else vector

    def _placed(self, text: str) -> Vectors:
        number = crc32(text[-TAIL:].encode())
        return unit(self._centres[number % len(self._centres)] + 0.9 * self._noise(number))

    def _near(self, text: str, question: str) -> Vectors:
        return unit(self._placed(text) + 0.5 * self._noise(crc32(question.encode())))

    def _noise(self, number: int) -> Vectors:
        rng = np.random.default_rng((self._seed, number))
        return np.asarray(rng.standard_normal(self.dim) / self.dim**0.5, np.float32)


def unit(vector: NDArray[Any]) -> Vectors:
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


class Timed:
    """A model whose work is timed."""

    def __init__(self, model: Embedder) -> None:
        self.name, self.dim, self.fits = model.name, model.dim, model.fits
        self._model, self.seconds = model, 0.0

    def passages(self, texts: Sequence[str]) -> Vectors:
        return self._timed(self._model.passages, texts)

    def query(self, text: str) -> Vectors:
        return self._timed(self._model.query, text)

    def _timed(self, embed: Callable[[Any], Vectors], what: Any) -> Vectors:
        started = time.perf_counter()
        vectors = embed(what)
        self.seconds += time.perf_counter() - started
        return vectors


class Watched(Timed):
    """A model whose work is timed, and which can return its last vectors of memories again."""

    def __init__(self, model: Embedder) -> None:
        super().__init__(model)
        self._made: dict[str, Vectors] = {}

    def passages(self, texts: Sequence[str]) -> Vectors:
        vectors = super().passages(texts)
        self._made.update(zip((text[-TAIL:] for text in texts), vectors, strict=True))
        return vectors

    def taken(self, texts: Sequence[str]) -> Vectors:
        """The vectors of these texts, which were made already; no others are kept."""
        made, self._made = self._made, {}
        missing = [text for text in texts if text[-TAIL:] not in made]
        if missing:
            made |= zip(
                (text[-TAIL:] for text in missing), self._model.passages(missing), strict=True
            )
        return np.stack([made[text[-TAIL:]] for text in texts])
