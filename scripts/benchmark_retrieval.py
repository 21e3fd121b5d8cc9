"""How well recall finds: the share of the evidence for a question among what it answers.

Reads files of conversations with questions and the turns that answer them, stores the turns
through Memory, asks the questions through Memory.recall, and puts beside that each lane alone,
each lane missing, and three plain designs on the same text. `benchmark.py --retrieval` runs it.
"""

import argparse
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from tqdm import tqdm

import _root  # noqa: F401 - makes the modules one folder up importable
import embedder
from benchmark_datasets import (
    OFF_TOPIC,
    Dataset,
    Pool,
    Question,
    Refused,
    Turn,
    crossed,
    limited,
    read_dataset,
    together,
)
from config import ALL_LANES, LANES, SETTINGS, VERSION, Config
from core.results import Hit
from core.types import Vectors
from embedder import Embedder
from memory import Memory
from recall.fusion import rrf
from text import words

TOP = 20
CUTS = (1, 5, 10, 20)
METRICS = (*(f"R@{cut}" for cut in CUTS), "hit@10", "MRR")
JUDGED = ("R@1", "R@10")  # what gets an interval and a difference
RESAMPLES = 2000
SEED = 20
BATCH = 32
DEPTH = 2 * TOP  # of each list that the plain hybrid fuses
GROUPS = ("default", "lanes", "cues", "rerank", "model", "baselines")

Floats = np.ndarray[Any, np.dtype[np.float64]]


# --- The model -------------------------------------------------------------------------


class CachingEmbedder:
    """An embedder that embeds each text once, for all stores of a run, or with a file for more."""

    def __init__(self, model: Embedder, path: Path | None = None) -> None:
        self.name, self.dim = model.name, model.dim
        self._model, self._path = model, path
        self._known: dict[str, Vectors] = {}
        self._saved = 0
        if path and path.exists():
            self._load(path)

    def fits(self, text: str) -> bool:
        return self._model.fits(text)

    def passages(self, texts: Sequence[str]) -> Vectors:
        vectors = [
            self._vector("passage", text, lambda text: self._model.passages([text])[0])
            for text in texts
        ]
        return np.stack(vectors) if vectors else np.zeros((0, self.dim), np.float32)

    def query(self, text: str) -> Vectors:
        return self._vector("query", text, self._model.query)

    def _vector(self, kind: str, text: str, make: Callable[[str], Vectors]) -> Vectors:
        key = blake2b(f"{kind} {text}".encode("utf-8", "replace"), digest_size=16).hexdigest()
        if key not in self._known:
            self._known[key] = make(text)
        return self._known[key]

    def _load(self, path: Path) -> None:
        try:
            with np.load(path) as saved:
                name, keys, vectors = str(saved["model"]), saved["keys"], saved["vectors"]
        except (OSError, ValueError, KeyError) as error:
            raise Refused(f"{path} is no cache of vectors: {error}") from None
        if name != self.name:
            raise Refused(f"{path} holds vectors of {name}, not of {self.name}.")
        self._known = dict(zip(keys.tolist(), vectors, strict=True))
        self._saved = len(self._known)

    def save(self) -> None:
        """Write what is new to the file, if there is one."""
        if self._path is None or len(self._known) == self._saved:
            return
        part = self._path.with_name(self._path.name + ".part")
        with part.open("wb") as file:
            np.savez(
                file,
                model=np.array(self.name),
                keys=np.array(list(self._known)),
                vectors=np.stack(list(self._known.values())),
            )
        part.replace(self._path)
        self._saved = len(self._known)


def _config(folder: Path, **settings: Any) -> Config:
    """The defaults, and what MNELO_MEMORY_... variables say; no config.toml of the user's."""
    env = {**os.environ, "MNELO_HOME": str(folder), "MNELO_MEMORY_CONFIG": ""}
    return Config.load(env, warm_up_embedder=False, timezone="utc", **settings)


def _changed() -> dict[str, Any]:
    """The settings of recall that a variable made others than the defaults."""
    with TemporaryDirectory() as folder:
        config, plain = _config(Path(folder)), Config(Path(folder))
    values = {name: getattr(config, name) for name in SETTINGS if name.startswith("recall_")}
    return {name: value for name, value in values.items() if value != getattr(plain, name)}


# --- A store to ask --------------------------------------------------------------------


class Stand:
    """The turns of a pool, stored, with the model's vectors made: ready to be asked in any way."""

    def __init__(
        self, pool: Pool, folder: Path, model: Embedder | None, step: Callable[[int], object]
    ) -> None:
        self.pool, self.model = pool, model
        self._folder = folder
        self.documents: dict[str, str] = {}
        """The stored memories: id and text. Equal turns of a pool are one memory."""
        self._places: dict[str, str] = {}
        with self.memory() as memory:
            for start in range(0, len(pool.turns), BATCH):
                self._store(memory, pool.turns[start : start + BATCH])
                step(len(pool.turns[start : start + BATCH]))
            if model:
                memory.fill_pending()

    def _store(self, memory: Memory, turns: Sequence[Turn]) -> None:
        items = [
            {
                "content": turn.text,
                "session_id": turn.session,
                "timestamp": turn.when,
                "source": turn.speaker,
            }
            for turn in turns
        ]
        for turn, stored in zip(turns, memory.remember_many(items), strict=True):
            self._places[turn.key] = stored["chunk_id"]
            self.documents.setdefault(stored["chunk_id"], turn.text)

    @contextmanager
    def memory(self, **settings: Any) -> Iterator[Memory]:
        """The store, opened with other settings than the default ones."""
        model = None if settings.get("embedder_model") == "none" else self.model
        if model is None:
            settings["embedder_model"] = "none"
        config = _config(self._folder, **settings)
        load = (lambda recorded: model) if model else None
        with Memory(self._folder / "memory.db", config=config, load_model=load) as memory:
            memory.wait_for_model(None)
            yield memory

    def wanted(self, question: Question) -> list[str]:
        """The memories that hold the answer."""
        return [self._places.get(key, key) for key in question.evidence]


@contextmanager
def _standing(pool: Pool, model: Embedder | None, step: Callable[[int], object]) -> Iterator[Stand]:
    with TemporaryDirectory(prefix="mnelo-benchmark-") as folder:
        yield Stand(pool, Path(folder), model, step)


# --- The ways to ask -------------------------------------------------------------------

Ask = Callable[[str], Sequence[str]]  # from a question to the ids of memories, best first


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report: a way of asking a stand."""

    name: str
    group: str
    open: Callable[[Stand], AbstractContextManager[Ask]]


def chosen_rows(groups: Sequence[str], *, vectors: bool) -> list[Row]:
    """The lines asked for; the default comes first in any case, as what others differ from."""
    lanes = [lane for lane in LANES if vectors or lane != "vector"]
    found = [Row("default", "default", _product())]
    found += [Row(f"only {lane}", "lanes", _product(f"{lane}_only")) for lane in lanes]
    found += _by_cues()
    for lane in lanes:
        others = [each for each in LANES if each != lane]
        found.append(Row(f"without {lane}", "lanes", _product(recall_lanes=others)))
    found.append(Row("rerank none", "rerank", _product(recall_rerank="none")))
    if vectors:
        found.append(Row("no model", "model", _product(embedder_model="none")))
    found += _baselines(vectors=vectors)
    return [row for row in found if row.group in ("default", *groups)]


def _by_cues() -> list[Row]:
    """By cues alone, with both kinds of edges, with one and with none; and cues as a fifth lane."""
    edges: dict[str, dict[str, bool]] = {
        "cues, no edges": {"cues_associative": False, "cues_discourse": False},
        "cues, associative": {"cues_discourse": False},
        "cues, discourse": {"cues_associative": False},
        "only cue": {},
    }
    found = [
        Row(name, "cues", _product("cue_only", recall_lanes=["cue"], **chosen))
        for name, chosen in edges.items()
    ]
    return [*found, Row("with cue", "cues", _product(recall_lanes=[*ALL_LANES]))]


def _product(strategy: str = "rrf", **settings: Any) -> Callable[[Stand], Any]:
    @contextmanager
    def opened(stand: Stand) -> Iterator[Ask]:
        with stand.memory(**settings) as memory:
            yield lambda text: [hit["chunk_id"] for hit in _hits(memory, text, strategy)]

    return opened


def _hits(memory: Memory, text: str, strategy: str = "rrf") -> list[Hit]:
    return memory.recall(text, top_k=TOP, max_tokens=0, strategy=strategy)["hits"]


def _baselines(*, vectors: bool) -> list[Row]:
    plain = [Row("BM25", "baselines", lambda stand: nullcontext(Bm25(stand.documents).ask))]
    if not vectors:
        return [*plain, Row("LIKE", "baselines", lambda stand: nullcontext(_like(stand)))]
    return [
        *plain,
        Row("vectors", "baselines", lambda stand: nullcontext(_cosine(stand))),
        Row("LIKE + vectors", "baselines", lambda stand: nullcontext(_hybrid(stand))),
    ]


class Bm25:
    """Words alone: BM25 exactly as SQLite's full-text search computes it, over English stems."""

    def __init__(self, documents: Mapping[str, str]) -> None:
        stems = {key: words.stems(words.index_terms(text)) for key, text in documents.items()}
        mean = sum(map(len, stems.values())) / max(len(stems), 1)
        self._weights: dict[str, dict[str, float]] = {}
        for key, terms in stems.items():
            penalty = 1.2 * (0.25 + 0.75 * len(terms) / mean) if terms else 0.0
            for term, count in Counter(terms).items():
                weight = count * 2.2 / (count + penalty)
                self._weights.setdefault(term, {})[key] = weight
        self._count = len(stems)

    def ask(self, text: str) -> list[str]:
        return sorted(scores := self.scores(text), key=lambda key: -scores[key])[:TOP]

    def scores(self, text: str) -> dict[str, float]:
        """Every document with a term of the query."""
        scores: dict[str, float] = {}
        for term in words.stems(words.query_terms(text)):
            found = self._weights.get(term, {})
            rarity = math.log((self._count - len(found) + 0.5) / (len(found) + 0.5))
            for key, weight in found.items():
                scores[key] = scores.get(key, 0.0) + max(rarity, 1e-6) * weight
        return scores


def _cosine(stand: Stand, depth: int = TOP) -> Ask:
    """Exact search: every vector is compared, and the best of a text's windows counts."""
    model = stand.model
    assert model is not None  # noqa: S101 - there is no such row without a model
    keys = list(stand.documents)
    windows = embedder.embed(model, list(stand.documents.values()))
    owners = np.repeat(np.arange(len(keys)), [len(each) for each in windows if each is not None])
    matrix = np.concatenate([each for each in windows if each is not None])

    def ask(text: str) -> list[str]:
        best = np.full(len(keys), -1.0)
        np.maximum.at(best, owners, matrix @ model.query(text))
        return [keys[at] for at in np.argsort(-best, kind="stable")[:depth]]

    return ask


def _like(stand: Stand, depth: int = TOP) -> Ask:
    """Texts that hold a term of the query as it stands, anywhere; those with most terms first."""
    folded = {key: words.fold(text) for key, text in stand.documents.items()}

    def ask(text: str) -> list[str]:
        terms = words.query_terms(text)
        counts = {key: sum(term in each for term in terms) for key, each in folded.items()}
        return sorted(filter(counts.__getitem__, counts), key=lambda key: -counts[key])[:depth]

    return ask


def _hybrid(stand: Stand) -> Ask:
    """The plain reading of a hybrid design: literal matches and vectors, their ranks fused."""
    like, cosine = _like(stand, DEPTH), _cosine(stand, DEPTH)

    def ask(text: str) -> list[str]:
        scores = rrf([like(text), cosine(text)])
        return sorted(scores, key=lambda key: -scores[key])[:TOP]

    return ask


# --- The measures ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """How a question came out."""

    category: str
    scores: tuple[float, ...]  # one for each of METRICS
    cpu_ms: float


def score(found: Sequence[str], wanted: Sequence[str]) -> tuple[float, ...]:
    """METRICS of one answer: the share of the evidence in its first 1, 5, 10, 20, and so on.

    >>> score(["x", "a", "y"], ["a", "b"])
    (0.0, 0.5, 0.5, 0.5, 1.0, 0.5)
    """
    top = list(found[:TOP])
    ranks = [top.index(each) + 1 for each in wanted if each in top]
    shares = [sum(rank <= cut for rank in ranks) / len(wanted) for cut in CUTS]
    best = min(ranks, default=math.inf)
    return (*shares, float(best <= 10), 1 / best)


def interval(values: Floats) -> list[float]:
    """The middle 95 % of the means of resamples: what another draw of questions might give."""
    picks = np.random.default_rng(SEED).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.percentile(values[picks].mean(axis=1), [2.5, 97.5])
    return [round(float(low), 6), round(float(high), 6)]


def measure(
    pools: Sequence[Pool], lines: Sequence[Row], model: Embedder | None, title: str
) -> dict[str, list[Asked]]:
    """Every question of every pool put to every row, in the same order for each."""
    asked: dict[str, list[Asked]] = {row.name: [] for row in lines}
    turns, questions = _sizes(pools)
    with tqdm(total=turns + questions * (1 + len(lines)), desc=title) as bar:
        for pool in pools:
            with _standing(pool, model, bar.update) as stand:
                # Embedded beforehand: the processor's time of a recall is that of searching alone.
                for question in _counted(pool.questions, bar):
                    if model:
                        model.query(question.text)
                for row in lines:
                    asked[row.name] += _ask_all(stand, row, bar.update)
    return asked


def _sizes(pools: Sequence[Pool]) -> tuple[int, int]:
    return sum(len(pool.turns) for pool in pools), sum(len(pool.questions) for pool in pools)


def _ask_all(stand: Stand, row: Row, step: Callable[[int], object]) -> list[Asked]:
    asked = []
    with row.open(stand) as ask:
        for question in stand.pool.questions:
            started = time.process_time()
            found = ask(question.text)
            spent = 1000 * (time.process_time() - started)
            asked.append(Asked(question.category, score(found, stand.wanted(question)), spent))
            step(1)
    return asked


def summary(asked: Sequence[Asked], reference: Sequence[Asked]) -> dict[str, Any]:
    """A row's means for each category, intervals, and how it differs from the reference."""
    table, others = _table(asked), _table(reference)
    categories = np.array([each.category for each in asked])
    every = {"all": np.full(len(asked), True)}
    every |= {name: categories == name for name in sorted(set(categories.tolist()))}
    judged = {metric: table[:, METRICS.index(metric)] for metric in JUDGED}
    apart = {metric: judged[metric] - others[:, METRICS.index(metric)] for metric in JUDGED}
    return {
        "categories": {name: _means(table[chosen]) for name, chosen in every.items()},
        "interval": {metric: interval(values) for metric, values in judged.items()},
        "difference": {
            metric: {"mean": round(float(values.mean()), 6), "interval": interval(values)}
            for metric, values in apart.items()
        },
        "cpu_ms_p50": round(float(np.median([each.cpu_ms for each in asked])), 2),
    }


def _table(asked: Sequence[Asked]) -> Floats:
    return np.array([each.scores for each in asked])


def _means(table: Floats) -> dict[str, float]:
    means = np.round(table.mean(axis=0), 6).tolist()
    return {"n": len(table), **dict(zip(METRICS, means, strict=True))}


# --- Knowing that nothing is known -----------------------------------------------------


def unknown(dataset: Dataset, model: Embedder | None, limit: int | None) -> dict[str, Any]:
    """How often recall knows that it knows nothing, and what that costs where it does know.

    It says so by no hits, or by marking each as weak.
    """
    recognised: dict[str, list[bool]] = {}
    answerable: list[tuple[bool, float, float]] = []
    without = {pool.id: _without_answer(pool, dataset, limit) for pool in dataset.pools}
    turns, questions = _sizes(dataset.pools)
    asked = sum(len(texts) for groups in without.values() for texts in groups.values())
    with tqdm(total=turns + questions + asked, desc=f"{dataset.name}, unknown") as bar:
        for pool in dataset.pools:
            with _standing(pool, model, bar.update) as stand, stand.memory() as memory:
                for group, texts in without[pool.id].items():
                    each = (_all_weak(_hits(memory, text)) for text in _counted(texts, bar))
                    recognised.setdefault(group, []).extend(each)
                answerable += [_kept(stand, memory, each) for each in _counted(pool.questions, bar)]
    return {"data": dataset.name, **_unknown_report(recognised, answerable)}


def _counted(items: Iterable[Any], bar: Any) -> Iterator[Any]:
    for item in items:
        yield item
        bar.update(1)


def _without_answer(pool: Pool, dataset: Dataset, limit: int | None) -> dict[str, list[str]]:
    """What a pool has no answer to: trick questions, those of other conversations, other topics.

    Users ask about the same things as each other, so their questions prove nothing.
    """
    groups = {f"off-topic {name}": limited(list(each), limit) for name, each in OFF_TOPIC.items()}
    if dataset.kind == "conversations":
        others = [each for each in dataset.pools if each.id != pool.id]
        groups["no answer"] = pool.unanswerable
        groups["of others"] = [question.text for each in others for question in each.questions]
    return {name: texts for name, texts in groups.items() if texts}


def _all_weak(hits: Sequence[Hit]) -> bool:
    return all(hit.get("weak") for hit in hits)


def _kept(stand: Stand, memory: Memory, question: Question) -> tuple[bool, float, float]:
    """Whether an answerable question is called unknown; its R@10 with and without weak hits."""
    hits, wanted, at = _hits(memory, question.text), stand.wanted(question), METRICS.index("R@10")
    strong = [hit["chunk_id"] for hit in hits if not hit.get("weak")]
    found = [hit["chunk_id"] for hit in hits]
    return _all_weak(hits), score(found, wanted)[at], score(strong, wanted)[at]


def _unknown_report(
    recognised: Mapping[str, Sequence[bool]], answerable: Sequence[tuple[bool, float, float]]
) -> dict[str, Any]:
    wrong, found, strong = np.array(answerable, float).reshape(-1, 3).mean(axis=0).tolist()
    return {
        "recognised": {
            group: {"n": len(each), "share": round(sum(each) / len(each), 6)}
            for group, each in recognised.items()
        },
        "answerable": {
            "n": len(answerable),
            "called_unknown": round(wrong, 6),
            "R@10": round(found, 6),
            "R@10_without_weak": round(strong, 6),
            "R@10_lost": round(found - strong, 6),
        },
    }


# --- The report ------------------------------------------------------------------------


def _markdown(result: Mapping[str, Any]) -> str:
    """Every row over all questions, then R@10 of every row by category."""
    lines = result["rows"]
    title = f"## {result['data']}, pool {result['pool']}"
    counts = f"{result['memories']} memories, {result['questions']} questions"
    head = ["row", *METRICS, *(f"{metric} − default" for metric in JUDGED), "CPU ms"]
    categories = lines[0]["categories"]
    by_category = ["R@10", *(f"{name} ({each['n']})" for name, each in categories.items())]
    return "\n\n".join(
        [
            f"{title}: {counts}",
            _grid(head, [_cells(row) for row in lines]),
            _grid(
                by_category,
                [
                    [row["row"], *(_percent(each["R@10"]) for each in row["categories"].values())]
                    for row in lines
                ],
            ),
        ]
    )


def _cells(row: Mapping[str, Any]) -> list[str]:
    means, intervals, differences = row["categories"]["all"], row["interval"], row["difference"]
    cells = [row["row"]]
    for metric in METRICS:
        around = f" ({_range(intervals[metric])})" if metric in intervals else ""
        cells.append(_percent(means[metric]) + around)
    for each in differences.values():
        same = row["row"] == "default"
        cells.append("" if same else f"{100 * each['mean']:+.1f} ({_range(each['interval'])})")
    return [*cells, f"{row['cpu_ms_p50']:.1f}"]


def _unknown_markdown(result: Mapping[str, Any]) -> str:
    known = result["answerable"]
    lines = [
        [f"{group}: recognised", str(each["n"]), _percent(each["share"])]
        for group, each in result["recognised"].items()
    ]
    for name in ("called_unknown", "R@10", "R@10_without_weak", "R@10_lost"):
        label = f"answerable: {name.replace('_', ' ')}"
        lines.append([label, str(known["n"]), _percent(known[name])])
    return f"## {result['data']}, unknown\n\n" + _grid(["questions", "n", "%"], lines)


def _grid(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _range(ends: Sequence[float]) -> str:
    return " to ".join(map(_percent, ends))


# --- The command -----------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of --retrieval."""
    add = parser.add_argument_group("retrieval").add_argument
    add(
        "--pool",
        choices=("per", "one", "both"),
        default="both",
        help="a store for each pool of a file, one for the whole file, or both (default)",
    )
    add(
        "--rows",
        type=_groups,
        default=GROUPS,
        metavar="ROW,...",
        help=f"which of {', '.join(GROUPS)}; the default is always there",
    )
    add(
        "--text",
        choices=("prefixed", "bare"),
        default="prefixed",
        help="texts with date and speaker (default), or these as arguments only",
    )
    add("--model", default="offline", help="offline (default), none, or a model's name")
    add("--cache", type=Path, metavar="FILE.npz", help="keep the vectors there for the next run")
    add("--limit", type=_positive, metavar="N", help="so many questions of each pool")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--cross",
        action="store_true",
        help="instead: the questions of one file of users to the other's turns, both ways",
    )
    instead.add_argument(
        "--unknown",
        action="store_true",
        help="instead: how often recall knows that it has no answer",
    )


def _groups(text: str) -> tuple[str, ...]:
    chosen = tuple(text.split(","))
    if wrong := sorted(set(chosen) - set(GROUPS)):
        raise argparse.ArgumentTypeError(f"no such row: {wrong[0]}; there are {', '.join(GROUPS)}")
    return chosen


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is no number of questions")
    return int(text)


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Measure what was asked for, print it, and return it; one line and status 2 if it cannot."""
    try:
        bare = given.text == "bare"
        datasets = [read_dataset(path, bare=bare, limit=given.limit) for path in given.retrieval]
        if given.cross:
            datasets = _both_ways(datasets)
        model = _model(given)
        try:
            return _report(given, datasets, model)
        finally:
            if model:
                model.save()
    except Refused as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None


def _both_ways(datasets: Sequence[Dataset]) -> list[Dataset]:
    if [each.kind for each in datasets] != ["users", "users"]:
        raise Refused("--cross needs two files of users: the same exchanges in two languages.")
    first, second = datasets
    return [crossed(first, second), crossed(second, first)]


def _model(given: argparse.Namespace) -> CachingEmbedder | None:
    if given.model == "none":
        return None
    if given.cache and not given.cache.parent.is_dir():
        raise Refused(f"{given.cache.parent} is no folder.")
    with TemporaryDirectory() as folder:
        config = _config(Path(folder), embedder_model=given.model)
        return CachingEmbedder(embedder.load(config, None), given.cache)


def _report(
    given: argparse.Namespace, datasets: Sequence[Dataset], model: Embedder | None
) -> dict[str, Any]:
    name = model.name if model else "none"
    about = {"benchmark": "retrieval", "version": VERSION, "model": name, "text": given.text}
    print(f"# Retrieval: mnelo {VERSION}, model {name}, {given.text} texts, %\n")
    if given.unknown:
        return {**about, "settings": _changed(), "unknown": _run_unknown(given, datasets, model)}
    return {**about, "settings": _changed(), "results": list(_results(given, datasets, model))}


def _run_unknown(
    given: argparse.Namespace, datasets: Sequence[Dataset], model: Embedder | None
) -> list[dict[str, Any]]:
    results = []
    for dataset in datasets:
        results.append(unknown(dataset, model, given.limit))
        print(_unknown_markdown(results[-1]), end="\n\n")
    return results


def _results(
    given: argparse.Namespace, datasets: Sequence[Dataset], model: Embedder | None
) -> Iterator[dict[str, Any]]:
    ways = ("per", "one") if given.pool == "both" else (given.pool,)
    for dataset in datasets:
        for way in ("per",) if given.cross else ways:
            pools = together(dataset) if way == "one" else dataset.pools
            result = {
                "data": dataset.name,
                "pool": way,
                **_result(given, pools, model, f"{dataset.name}, {way}"),
            }
            print(_markdown(result), end="\n\n")
            yield result


def _result(
    given: argparse.Namespace, pools: Sequence[Pool], model: Embedder | None, title: str
) -> dict[str, Any]:
    asked = measure(pools, chosen_rows(given.rows, vectors=model is not None), model, title)
    turns, questions = _sizes(pools)
    return {
        "memories": turns,
        "questions": questions,
        "rows": [{"row": row, **summary(each, asked["default"])} for row, each in asked.items()],
    }
