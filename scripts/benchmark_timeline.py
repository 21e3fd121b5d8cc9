"""The timeline: how long its tools take beyond the embedding, and how its groups are found.

A throwaway file is filled with made-up entries. Most are about one of many things, few of which
have many entries; the rest are about nothing else, and some say once more what another one says.
Their vectors need no model: they are as near to each other as those of E5, where entries about
one thing have a median likeness of about 0.65 and others of 0. Every question is asked twice, and
the second time counts: its vector is known by then. Times are of the wall and of the processor.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

import _root  # noqa: F401 - makes the modules one folder up importable
import benchmark_corpus as corpus
import benchmark_speed as speed
import embedder
from core.types import Vectors
from embedder import Embedder
from memory import Memory
from server.metrics import resident_bytes
from timeline import communities
from timeline.arguments import SUMMARY_CHARACTERS
from timeline.timeline import Timeline

PER_THING = 12  # entries about one thing, on average
PER_AREA = 6  # things that are akin
POOL = 12  # tags that entries about one thing have two of
ALONE = 0.3  # of the entries are about nothing that another one is about
DOUBLES = 0.01  # of the entries say once more what another one says
WITH_CONTEXT = 5  # one in so many entries has a context
CONTEXT_CHARACTERS = 9000
WARM_UP = 3

Parts = Mapping[str, float]  # of what directions a vector is made, and how much of each


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this part."""
    number = speed.COUNT
    about = "entries to make up; several numbers for several files"
    parser.add_argument("--entries", nargs="+", default=[1000, 5000], help=about, **number)
    parser.add_argument("--queries", default=100, help="times that each tool is called", **number)
    parser.add_argument("--top-k", default=3, help="entries per answer", **number)
    models = [name for name in speed.MODELS if name != "none"]
    parser.add_argument(
        "--embedder",
        choices=(*models, "vectors"),
        default="vectors",
        help="the model that came with the installation, the pure Python one, or vectors that "
        "need none; to models the made-up words mean little, so that of theirs only times count",
    )
    parser.add_argument("--dim", default=384, help="dimensions of those vectors", **number)
    parser.add_argument("--seed", type=int, default=1, help="another one makes other entries")


def run(args: argparse.Namespace) -> speed.Report:
    """Measure, print it as tables and return the figures."""
    sizes = {}
    for size in args.entries:
        with TemporaryDirectory(prefix="mnelo-benchmark-") as folder:
            sizes[str(size)] = _measured(Trial(args, size, Path(folder)))
    report = {"config": _conditions(args), "sizes": sizes}
    print("\n".join(_markdown(report)))
    return report


def _conditions(args: argparse.Namespace) -> speed.Report:
    names = ("entries", "queries", "top_k", "embedder", "dim", "seed")
    return {
        **{name: getattr(args, name) for name in names},
        **speed.machine(),
    }


# --- Entries and questions -------------------------------------------------------------


class Asked(NamedTuple):
    text: str
    about: int  # the entry it asks for


class Entries:
    """Made-up entries by their number, and questions about them; the same for a seed.

    >>> Entries(20, seed=1).entry(7) == Entries(20, seed=1).entry(7)
    True
    """

    def __init__(self, size: int, seed: int) -> None:
        self.size, self._corpus = size, corpus.Corpus(size, seed)
        rng = np.random.default_rng((seed, 3))
        things = max(1, size // PER_THING)
        self._areas = max(1, things // PER_AREA)
        share = 1 / (np.arange(things) + 5.0)  # some have many entries, most have a few
        drawn = rng.choice(things, size, p=share / share.sum())
        self.things: list[int | None] = [
            None if alone else int(thing)
            for thing, alone in zip(drawn, rng.random(size) < ALONE, strict=True)
        ]
        # What doubles an entry comes later; the first can double none.
        doubles = rng.random(size) < DOUBLES
        self._of = [
            int(rng.integers(at)) if at and again else at for at, again in enumerate(doubles)
        ]
        self._order = rng.permutation(size).tolist()

    def doubles(self, size: int) -> int:
        """How many of the first entries double another one."""
        return sum(of != at for at, of in enumerate(self._of[:size]))

    def entry(self, at: int, *, with_context: bool = True) -> dict[str, Any]:
        """One entry, as memory_write takes it; one in WITH_CONTEXT has a context, if wanted."""
        entry = {"summary": self.summary(at), "tags": self._tags(at), "category": "knowledge"}
        if with_context and at % WITH_CONTEXT == 0:
            entry["context_text"] = self.context(at)
        return entry

    def summary(self, at: int) -> str:
        of = self._of[at]
        if of != at:
            return self.summary(of) + "."
        # The number keeps apart what is cut alike, and what differs in one doubles nothing.
        return f"{at}: {self._corpus.memory(at)['content']}"[: SUMMARY_CHARACTERS - 20]

    def _tags(self, at: int) -> list[str]:
        thing = self.things[at]
        of_it = [_english(3 * at), _english(3 * at + 1)]
        if thing is not None:
            first = crc32(f"tags {at}".encode()) % POOL
            of_it = [f"{_chinese(thing)} {(first + step) % POOL}" for step in (0, 1)]
        return [self._field(at), *of_it, f"{_english(3 * at + 2)} 2", _english(3 * at + 2)]

    def _field(self, at: int) -> str:
        thing = self.things[at]
        return corpus.TAGS[(at if thing is None else thing) % len(corpus.TAGS)]

    def context(self, at: int) -> str:
        """Text of many paragraphs, from another place on for each entry."""
        start = 37 * at % len(self._long)
        return (self._long[start:] + self._long)[:CONTEXT_CHARACTERS]

    @cached_property
    def _long(self) -> str:
        texts = (self._corpus.memory(at % self.size)["content"] for at in range(300))
        return "\n\n".join(texts) + "\n\n"

    def with_context(self) -> Iterator[int]:
        """The entries that have a context, in an order of their own."""
        return (at for at in self._order if at % WITH_CONTEXT == 0)

    def questions(self, count: int) -> list[Asked]:
        """Questions about different entries; fewer where there are fewer entries."""
        about = [at for at in self._order if self._of[at] == at][:count]
        return [Asked(f"{self.summary(at)[: 60 + len(str(at))]}?", at) for at in about]

    # -- their vectors --

    def placed(self) -> dict[str, Parts]:
        """Of what each text's vector is made, summaries, tags and all questions."""
        parts: dict[str, Parts] = {}
        for at in range(self.size):
            field, *tags = self._tags(at)
            about = self._about(at)
            parts[field] = {field: 1.0}
            for tag in tags[:2]:
                parts[tag] = {**self._about(at, 0.6), tag: 0.8}
            for tag in tags[2:]:
                parts[tag] = about | {tag: 0.9}
            parts[self.summary(at)] = self._said(at)
        for text, at in self.questions(self.size):
            parts[text] = {**self._said(at), text: 0.6}
        return parts

    def _said(self, at: int) -> Parts:
        of = self._of[at]
        again = {f"again {at}": 0.1} if of != at else {}
        return {self._field(of): 0.3, f"said {of}": 0.7, **self._about(of), **again}

    def _about(self, at: int, much: float | None = None) -> dict[str, float]:
        """How much an entry has of its thing, if that is not given, and of the area around it.

        Some entries are all about their thing, others touch it; things of an area are akin.
        """
        if much is None:
            much = 0.1 + 0.5 * (crc32(f"much {at}".encode()) % 1000) / 1000
        thing = self.things[at]
        if thing is None:
            return {f"alone {at}": much}
        return {f"thing {thing}": 0.6 * much, f"area {thing % self._areas}": 0.8 * much}


SYLLABLES = [
    "".join(parts)
    for parts in product(corpus.ONSETS.split(), corpus.VOWELS.split(), corpus.CODAS.split())
]


def _chinese(number: int) -> str:
    return corpus.HAN[number % len(corpus.HAN)] + corpus.HAN[(31 * number + 7) % len(corpus.HAN)]


def _english(number: int) -> str:
    """A word of its own for each number."""
    first, second = number % len(SYLLABLES), number // len(SYLLABLES)
    return SYLLABLES[first] + SYLLABLES[(second + 17) % len(SYLLABLES)]


class PlantedVectors(corpus.MadeUpVectors):
    """Gives each text the vector that was planned for it, at once.

    All have one direction in common, as those of real models have; a text that nobody planned
    has nothing else in common with any.
    """

    name = "benchmark/planted"
    COMMON = 1.6

    def __init__(self, dim: int, seed: int, parts: Mapping[str, Parts]) -> None:
        self.dim, self._seed, self._parts = dim, seed, parts
        self._shared: dict[str, NDArray[np.float64]] = {}
        self._ready: dict[str, Vectors] = {}

    def prepare(self, texts: Iterable[str]) -> None:
        """Make the vectors of these texts, so that asking for them takes no time."""
        self._ready.update((text, self._placed(text)) for text in texts)

    def passages(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self.query(text) for text in texts])

    def query(self, text: str) -> Vectors:
        ready = self._ready.get(text)
        return self._placed(text) if ready is None else ready

    def _placed(self, text: str) -> Vectors:
        parts = self._parts.get(text, {text: 1.0})
        own = sum(weight * self._direction(name) for name, weight in parts.items())
        vector = self.COMMON * self._direction("") + own / np.linalg.norm(own)
        return corpus.unit(vector)

    def _direction(self, name: str) -> NDArray[np.float64]:
        """A direction of its own for each name; those that many have are kept."""
        if name in self._shared:
            return self._shared[name]
        rng = np.random.default_rng((self._seed, crc32(name.encode())))
        made = rng.standard_normal(self.dim)
        made /= np.linalg.norm(made)
        if name in ("", *corpus.TAGS) or name.startswith(("thing ", "area ")):
            self._shared[name] = made
        return made


# --- Measuring -------------------------------------------------------------------------


class Trial:
    """One file of entries, and what is asked of it."""

    def __init__(self, args: argparse.Namespace, size: int, folder: Path) -> None:
        self.args, self.size, self.folder = args, size, folder
        # Some more than the file is to have are written to see how long that takes.
        self.entries = Entries(size + 2 * args.queries + WARM_UP, args.seed)
        self.ids: list[str] = []

    @cached_property
    def questions(self) -> list[Asked]:
        asked = self.entries.questions(self.entries.size)
        return [each for each in asked if each.about < self.size][: self.args.queries]

    def model(self) -> corpus.Timed:
        if self.args.embedder in speed.MODELS:
            return corpus.Timed(embedder.load(speed.settings(self.args, self.folder), None))
        planted = PlantedVectors(self.args.dim, self.args.seed, self.entries.placed())
        planted.prepare(each.text for each in self.questions)
        return corpus.Timed(planted)

    def open(self, model: Embedder) -> Memory:
        config = speed.settings(self.args, self.folder)
        return speed.opened(self.folder, config, lambda recorded: model)

    def query(self, timeline: Timeline, question: Asked) -> list[dict[str, Any]]:
        found = timeline.query(question.text, top_k=self.args.top_k)["results"]
        return list(found)


def _measured(trial: Trial) -> speed.Report:
    """What one file gives, part by part."""
    model = trial.model()
    with trial.open(model) as memory:
        timeline = memory.timeline()
        filled = _filled(trial, timeline)
        report = {
            **filled,
            "planted": _planted(trial),
            "query": _queries(trial, timeline),
            "context": _contexts(trial, timeline),
            "rebuild": _rebuilt(timeline),
            "degrees": _degrees(memory, timeline),
            "duplicates": _doubles(timeline),
            "process": _opened_anew(trial),
        }
        written = _written(trial, timeline, model)
        size = (trial.folder / "memory.db").stat().st_size
    return {**report, **written, "file_mb": round(size / 1e6, 2)}


def _filled(trial: Trial, timeline: Timeline) -> speed.Report:
    started = time.perf_counter()
    for at in tqdm(range(trial.size), desc="writing", unit=" entries"):
        trial.ids.append(timeline.write(trial.entries.entry(at))["timeline_id"])
    return {"fill_s": round(time.perf_counter() - started, 3)}


def _planted(trial: Trial) -> speed.Report:
    """What the made-up entries are about."""
    things = [thing for thing in trial.entries.things[: trial.size] if thing is not None]
    counted = np.unique(things, return_counts=True)[1] if things else np.zeros(1, np.int64)
    return {
        "things": len(counted),
        "largest": int(counted.max()),
        "alone": trial.size - len(things),
        "doubles": trial.entries.doubles(trial.size),
    }


def _queries(trial: Trial, timeline: Timeline) -> speed.Report:
    """Questions whose vectors are known, and how many found what they ask for."""
    watch, found = speed.Stopwatch(), 0
    for question in tqdm(trial.questions, desc="asking", unit=" questions"):
        trial.query(timeline, question)
        results = watch.time(trial.query, timeline, question)
        found += any(each["timeline_id"] == trial.ids[question.about] for each in results)
    return watch.summary() | {"found_pct": round(100 * found / len(trial.questions), 1)}


def _contexts(trial: Trial, timeline: Timeline) -> speed.Report:
    def read(at: int) -> list[dict[str, Any]]:
        return list(timeline.get_context(trial.ids[at])["segments"])

    watch = speed.Stopwatch()
    among = [at for at in trial.entries.with_context() if at < trial.size]
    for at in among[: trial.args.queries]:
        watch.time(read, at)
    return watch.summary()


def _written(trial: Trial, timeline: Timeline, model: corpus.Timed) -> speed.Report:
    """Writes into the full file, with and without a context; a question after each of the latter.

    That question then reads the new vector.
    """
    watches, embedding = {name: speed.Stopwatch() for name in WRITTEN}, []
    more = iter(range(trial.size, trial.entries.size))
    asked = trial.questions

    def write(context: dict[str, str]) -> list[str]:
        entry = trial.entries.entry(next(more), with_context=False) | context
        return [timeline.write(entry)["timeline_id"]]

    for _ in range(WARM_UP):
        write({})
    long = {"context_text": trial.entries.context(0)}
    for turn in tqdm(range(trial.args.queries), desc="writing more", unit=" entries"):
        watches["write_with_context"].time(write, long)
        model.seconds = 0.0
        watches["write"].time(write, {})
        embedding.append(1000 * model.seconds)
        watches["query_after_write"].time(trial.query, timeline, asked[turn % len(asked)])
    report = {name: watch.summary() for name, watch in watches.items()}
    report["write"]["embedding_ms"] = round(float(np.median(embedding)), 3)
    return report


def _rebuilt(timeline: Timeline) -> speed.Report:
    """One look for the groups, in full; the vectors are there already."""
    (done, wall, cpu) = _once(timeline.rebuild_groups)
    listed = timeline.list_groups()["groups"]
    kept = ("status", "k", "threshold", "grouped", "group_count", "notice")
    return {
        **{name: done[name] for name in kept if name in done},
        "largest": max((each["members"] for each in listed), default=0),
        "wall_s": wall,
        "cpu_s": cpu,
    }


def _once(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What comes of some work, and its seconds of the wall and of the processor."""
    worked, started = time.process_time(), time.perf_counter()
    done = work()
    wall, cpu = time.perf_counter() - started, time.process_time() - worked
    return done, round(wall, 3), round(cpu, 3)


def _degrees(memory: Memory, timeline: Timeline) -> speed.Report:
    """With how many others an entry is joined, as the groups are looked for."""
    model = memory.embedding.model(None)
    if model is None:
        raise RuntimeError("the model is gone")
    with memory.store.view() as view:
        matrix = view.entries.matrix(model.known.version)
    zeros, least = timeline.scale(model).entries, timeline.settings()[0].group_threshold
    near = communities.edges(matrix.vectors, matrix.scripts, zeros, least)
    degrees = [bits.bit_count() for bits in near]
    shown = {f"p{each}": round(float(np.percentile(degrees, each)), 1) for each in (50, 95)}
    return {"edges": sum(degrees) // 2, **shown, "max": max(degrees)}


def _doubles(timeline: Timeline) -> speed.Report:
    done, wall, cpu = _once(timeline.mark_duplicates)
    return {"marked": done, "wall_s": wall, "cpu_s": cpu}


WRITTEN = ("write_with_context", "write", "query_after_write")


# -- a process of its own --


def _opened_anew(trial: Trial) -> speed.Report:
    """What a fresh program holds in memory: with the file open, after questions, after groups."""
    plan = {"args": vars(trial.args), "size": trial.size, "folder": str(trial.folder)}
    return speed.in_fresh_program("benchmark_timeline", trial.folder, plan)


def open_anew() -> None:
    """In a fresh program: open the file, ask, look for groups, and print what that takes."""
    plan = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    trial = Trial(argparse.Namespace(**plan["args"]), plan["size"], Path(plan["folder"]))
    model = trial.model()
    if trial.args.embedder not in speed.MODELS:
        trial.entries = Entries(1, trial.args.seed)  # what is made up is not the product's
    resident = {}
    with trial.open(model) as memory:
        timeline = memory.timeline()
        resident["opened_mb"] = _resident_mb()
        started = time.perf_counter()
        for number, question in enumerate(trial.questions):
            trial.query(timeline, question)
            if not number:
                resident["first_query_ms"] = round(1000 * (time.perf_counter() - started), 3)
        resident["asked_mb"] = _resident_mb()
        timeline.rebuild_groups()
        resident["grouped_mb"] = _resident_mb()
    print(json.dumps(resident))


def _resident_mb() -> float:
    return round((resident_bytes() or 0) / 1e6, 1)


# --- The tables ------------------------------------------------------------------------

COLUMNS = ("p50", "p95", "cpu_p50", "cpu_p95")
ROWS = {
    "query": "memory_query, its vector known",
    "query_after_write": "the same after a write",
    "write": "memory_write, vectors included",
    "write_with_context": "the same with 9,000 characters of context",
    "context": "memory_get_context, one segment",
}


def _markdown(report: speed.Report) -> Iterator[str]:
    """The report as a person reads it, in Markdown."""
    config = report["config"]
    sizes = ", ".join(map(str, config["entries"]))
    yield (
        f"{sizes} entries, {config['queries']} calls, top {config['top_k']}, "
        f"embedder {config['embedder']}.\n"
    )
    yield from speed.heading("ms", ("entries", *COLUMNS, ""))
    for name, about in ROWS.items():
        for size, found in report["sizes"].items():
            yield speed.row(name, (size, *(found[name][f"{each}_ms"] for each in COLUMNS), about))
    for size, found in report["sizes"].items():
        yield from _markdown_groups(size, found)


def _markdown_groups(size: str, found: speed.Report) -> Iterator[str]:
    planted, rebuild, degrees = found["planted"], found["rebuild"], found["degrees"]
    double, process = found["duplicates"], found["process"]
    yield (
        f"\n{size} entries about {planted['things']} things, {planted['largest']} about one, "
        f"{planted['alone']} about nothing else: {degrees['edges']} edges, degree p50 "
        f"{degrees['p50']:.0f}, p95 {degrees['p95']:.0f}, at most {degrees['max']}."
    )
    came = f"{rebuild['wall_s']:.2f} s (CPU {rebuild['cpu_s']:.2f} s): {rebuild['status']}"
    if "group_count" in rebuild:
        came += (
            f", {rebuild['group_count']} groups of {rebuild['grouped']} entries, "
            f"the largest of {rebuild['largest']}"
        )
    yield f"Groups in {came}. {rebuild.get('notice', '')}".rstrip()
    yield (
        f"Doubles in {double['wall_s']:.2f} s (CPU {double['cpu_s']:.2f} s): "
        f"{double['marked']} of {planted['doubles']} marked."
    )
    yield (
        f"{found['query']['found_pct']:.1f} % of the questions found their entry. A write takes "
        f"{found['write']['embedding_ms']:.2f} ms for vectors. File {found['file_mb']:.1f} MB; "
        f"process {process['opened_mb']:.0f} MB, after questions {process['asked_mb']:.0f}, "
        f"after groups {process['grouped_mb']:.0f}; first answer {process['first_query_ms']:.1f} "
        "ms after opening."
    )
