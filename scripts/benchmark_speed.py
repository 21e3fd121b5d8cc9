"""How fast it is: recall, its lanes, storing and opening, on a throwaway file of made-up memories.

The memories hang together as real ones do and are the same for the same seed: English and
Chinese, stock codes, sessions, some entities that much leads to. `--baseline` measures beside
it, question by question, the plain design: the same four lanes with nothing clever in them.
Times are of the wall and of the processor, the latter over all threads.
"""

import argparse
import gc
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
from tqdm import tqdm

import _root  # noqa: F401 - makes the modules one folder up importable
import embedder
from benchmark_corpus import BATCH_ITEMS, ClusteredVectors, Corpus, Question, Watched
from benchmark_plain import SQLITE, Baseline, Look
from config import LANES, VERSION, Config
from core.results import Hit
from core.types import Vectors
from embedder import Embedder
from memory import Memory
from recall import search
from recall.lanes import INDEPENDENT_LANES
from server.metrics import resident_bytes
from text.words import query_terms, stems

WARM_UP = 5  # questions asked before any that counts
SETTLE = 0.004  # seconds after an answer, for what is written behind it to count as its work
MODELS = {"none": "none", "offline": "offline", "use": embedder.OFFLINE_USE}
"""What --embedder may name besides made-up vectors, as the settings call it."""
EXACT = 10  # nearest vectors that should be found

T = TypeVar("T")
Report = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this part."""
    parser.add_argument("--chunks", default=10_000, help="memories to make up", **COUNT)
    parser.add_argument("--queries", default=100, help="questions to ask", **COUNT)
    parser.add_argument("--top-k", default=10, help="memories per answer", **COUNT)
    parser.add_argument("--baseline", action="store_true", help="also measure the plain design")
    parser.add_argument(
        "--embedder",
        choices=(*MODELS, "vectors"),
        default="vectors",
        help="no model, the one that came with the installation, the pure Python one, or vectors "
        "that need none",
    )
    parser.add_argument("--dim", default=384, help="dimensions of those vectors", **COUNT)
    parser.add_argument("--seed", type=int, default=1, help="another one makes other memories")


def at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


COUNT: dict[str, Any] = {"type": at_least_one, "metavar": "N"}


def run(args: argparse.Namespace) -> Report:
    """Measure, print it as tables and return the figures."""
    with TemporaryDirectory(prefix="mnelo-benchmark-") as folder, ExitStack() as stack:
        report = _measured(Trial(args, Path(folder)), stack)
    print("\n".join(_markdown(report)))
    return report


# --- Statistics ------------------------------------------------------------------------


class Stopwatch:
    """Milliseconds of what was asked, and how often nothing came back."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self.empty = 0

    def time(self, ask: Callable[..., Sequence[T]], *given: Any) -> Sequence[T]:
        worked, started = time.process_time(), time.perf_counter()
        answer = ask(*given)
        self.wall.append((time.perf_counter() - started) * 1000)
        time.sleep(SETTLE)
        self.cpu.append((time.process_time() - worked) * 1000)
        self.empty += not answer
        return answer

    def summary(self) -> Report:
        """The figures of the report.

        >>> watch = Stopwatch()
        >>> watch.wall, watch.cpu, watch.empty = [1.0, 3.0], [2.0, 2.0], 1
        >>> [watch.summary()[key] for key in ("p50_ms", "mean_ms", "cpu_p50_ms", "empty_pct")]
        [2.0, 2.0, 2.0, 50.0]
        """
        wall = np.array(self.wall)
        figures = {f"p{percent}_ms": np.percentile(wall, percent) for percent in (50, 95, 99)}
        figures |= {"min_ms": wall.min(), "max_ms": wall.max(), "mean_ms": wall.mean()}
        figures["stdev_ms"] = wall.std(ddof=1) if len(wall) > 1 else 0.0
        figures |= {f"cpu_p{each}_ms": np.percentile(self.cpu, each) for each in (50, 95)}
        rounded = {name: round(float(value), 3) for name, value in figures.items()}
        empty_pct = round(100 * self.empty / len(wall), 1)
        return {**rounded, "empty_count": self.empty, "empty_pct": empty_pct}


def _model(args: argparse.Namespace, config: Config, asked: Mapping[str, str]) -> Embedder:
    if args.embedder in MODELS:
        return embedder.load(config, None)
    return ClusteredVectors(args.chunks, args.dim, args.seed, asked)


# --- Measuring -------------------------------------------------------------------------


class Trial:
    """One file, what is asked of it, and the plain design beside it if wanted."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self.args, self.folder = args, folder
        self.corpus = Corpus(args.chunks, args.seed)
        questions = self.corpus.questions(2 * args.queries + WARM_UP)
        half = (len(questions) - WARM_UP) // 2
        self.kept, self.fresh = questions[:half], questions[half : 2 * half]
        self.warm_up = questions[2 * half :]
        self.asked = {each.text: self.corpus.memory(each.about)["content"] for each in questions}
        self.model = self._watched()
        self.ids: list[str] = []
        self.vectors: list[Vectors] = []
        self.baseline: Baseline | None = None

    def _watched(self) -> Watched | None:
        if self.args.embedder == "none":
            return None
        return Watched(_model(self.args, settings(self.args, self.folder), self.asked))

    def open(self, *, concurrent: str = "auto") -> Memory:
        """The file, with the one model."""
        model = self.model
        load = None if model is None else (lambda recorded: model)
        config = settings(self.args, self.folder, recall_concurrent=concurrent)
        return opened(self.folder, config, load)

    def answer(self, memory: Memory, question: Question, strategy: str = "rrf") -> list[Hit]:
        return memory.recall(question.text, top_k=self.args.top_k, strategy=strategy)["hits"]

    def vector(self, question: Question) -> Vectors | None:
        """The question's vector, for the plain design."""
        return None if self.model is None else self.model.query(question.text)


def opened(folder: Path, config: Config, load: Callable[[str | None], Embedder] | None) -> Memory:
    """The file in a folder, once its model is there."""
    memory = Memory(folder / "memory.db", config=config, load_model=load)
    memory.wait_for_model(None)
    return memory


def settings(args: argparse.Namespace, folder: Path, **chosen: Any) -> Config:
    """The defaults, whatever is set outside."""
    chosen |= {"embedder_model": MODELS.get(args.embedder), "limits_top_k": max(100, args.top_k)}
    return Config.load({"MNELO_HOME": str(folder)}, **chosen)


def _measured(trial: Trial, stack: ExitStack) -> Report:
    """The whole report, part by part."""
    if trial.args.baseline:
        dim = None if trial.model is None else trial.model.dim
        trial.baseline = Baseline(trial.folder / "baseline.db", dim)
        stack.callback(trial.baseline.close)
    seeded = stored(trial)
    opened = _opened_anew(trial)
    with _frozen(), trial.open() as memory:
        asked = _asked(trial, memory)
        stats = memory.stats()
        agreed = _agreement(trial, memory, asked.pop("answers"))
    report = {"config": _conditions(trial), **seeded, **asked, **opened, "final_db_stats": stats}
    if trial.baseline:
        report["baseline"] |= {**_ratios(report), "agreement": agreed}
    return report


@contextmanager
def _frozen() -> Iterator[None]:
    """What the benchmark itself holds is not walked through when rubbish is collected."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _conditions(trial: Trial) -> Report:
    names = ("chunks", "queries", "top_k", "baseline", "embedder", "seed")
    return {
        **{name: getattr(trial.args, name) for name in names},
        "dim": trial.model.dim if trial.model else 0,
        **machine(),
    }


def machine() -> Report:
    """On what all this was measured."""
    return {
        "version": VERSION,
        "python": platform.python_version(),
        "sqlite": SQLITE,
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
    }


# -- storing --


def stored(trial: Trial) -> Report:
    """Store every memory through the product, and beside it in the plain design."""
    spent, bar = 0.0, tqdm(total=trial.corpus.size, desc="storing", unit=" memories")
    with bar, trial.open() as memory:
        if trial.model:
            trial.model.seconds = 0.0  # what opening took
        for items in trial.corpus.memories():
            started = time.perf_counter()
            trial.ids += [each["chunk_id"] for each in memory.remember_many(items)]
            spent += time.perf_counter() - started
            _copy(trial, items)
            bar.update(len(items))
        started = time.perf_counter()
        if trial.model:
            memory.fill_pending()
        spent += time.perf_counter() - started
    return {"seed_time_s": round(spent, 3), "ingest": _ingest(trial, spent)}


def _copy(trial: Trial, items: Sequence[Mapping[str, Any]]) -> None:
    vectors = None
    if trial.model:
        vectors = trial.model.taken([item["content"] for item in items])
    if trial.baseline:
        trial.baseline.put(items, vectors)
        trial.vectors += [] if vectors is None else [vectors]


def _ingest(trial: Trial, spent: float) -> Report:
    embedding = trial.model.seconds if trial.model else 0.0
    return {
        "chunks_per_s": round(trial.corpus.size / spent, 1),
        "embed_s": round(embedding, 3),
        "store_s": round(spent - embedding, 3),
    }


# -- opening --


def _opened_anew(trial: Trial) -> Report:
    """What a fresh program needs: time until its first answer, and memory after many."""
    plan = {
        "args": vars(trial.args) | {"folder": str(trial.folder)},
        "asked": trial.asked,
        "questions": [each.text for each in (*trial.warm_up, *trial.kept)],
    }
    size = (trial.folder / "memory.db").stat().st_size
    fresh = in_fresh_program("benchmark_speed", trial.folder, plan)
    return {**fresh, "file_mb": round(size / 1e6, 2)}


def in_fresh_program(module: str, folder: Path, plan: Report) -> Report:
    """What a module's `open_anew` prints in a process of its own."""
    file = folder / "plan.json"
    file.write_text(json.dumps(plan, default=str), "utf-8")
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-c", f"import {module} as b; b.open_anew()", str(file)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parent)},
        stdout=subprocess.PIPE,
        check=True,
    )
    return dict(json.loads(done.stdout))


def open_anew() -> None:
    """In a fresh program: open the file, answer, and print what that took."""
    plan = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    args = argparse.Namespace(**plan["args"])
    config = settings(args, Path(args.folder))
    # Of vectors that stand for a model only their use counts, not how they are made up.
    made = _model(args, config, plan["asked"]) if args.embedder == "vectors" else None
    load = None if args.embedder == "none" else lambda _: made or _model(args, config, {})
    started = time.perf_counter()
    with Memory(Path(args.folder, "memory.db"), config=config, load_model=load) as memory:
        memory.recall(plan["questions"][0], top_k=args.top_k)
        spent = time.perf_counter() - started
        for text in plan["questions"][1:]:
            memory.recall(text, top_k=args.top_k)
        resident = (resident_bytes() or 0) / 1e6
    print(json.dumps({"rss_mb": round(resident, 1), "cold_start_s": round(spent, 4)}))


# -- asking --


def _asked(trial: Trial, memory: Memory) -> Report:
    """Every way to ask, measured; and the answers to the questions whose vectors are kept."""
    for question in trial.warm_up:
        trial.answer(memory, question)
    watches, answers = _side_by_side(trial, memory)
    uncached = Stopwatch()
    for question in tqdm(trial.fresh, desc="asking anew", unit=" questions"):
        uncached.time(trial.answer, memory, question)
    report: Report = {"total_query_time_s": round(sum(watches["recall"].wall) / 1000, 3)}
    report |= {way: watch.summary() for way, watch in watches.items()}
    if trial.baseline:
        report["baseline"]["lanes"] = _baseline_lanes(trial, trial.baseline)
    report |= {"uncached": uncached.summary(), **_either_way(trial)}
    shares, alone = _shares(trial, memory), _words(trial, memory)
    lanes = _lanes(trial, memory, answers["recall"])
    return {**report, "lanes": lanes, "shares": shares, "words": alone, "answers": answers}


def _either_way(trial: Trial) -> Report:
    """Recalls with the lanes side by side, and with one after the other."""
    report = {}
    for way, concurrent in (("together", "true"), ("sequential", "false")):
        watch = Stopwatch()
        with trial.open(concurrent=concurrent) as memory:
            for question in _twice(trial.kept, [lambda each: trial.answer(memory, each)]):
                watch.time(trial.answer, memory, question)
        report[way] = watch.summary()
    return report


def _shares(trial: Trial, memory: Memory) -> Report:
    """Milliseconds of processor time that each part of a recall takes, by the median.

    What the words say of every memory is asked for by the vector lane first, and counts there.
    """
    spent: dict[str, list[float]] = {}
    with ExitStack() as stack:
        for part, (owner, name) in PARTS.items():
            stack.enter_context(_watched_part(owner, name, spent.setdefault(part, [])))
        for question in trial.kept:
            trial.answer(memory, question)
    return {part: round(float(np.median(times)), 3) for part, times in spent.items() if times}


@contextmanager
def _watched_part(owner: Any, name: str, spent: list[float]) -> Iterator[None]:
    """While inside, note how long each call of a function takes."""
    part = owner[name] if isinstance(owner, dict) else getattr(owner, name)

    def watched(*given: Any, **named: Any) -> Any:
        started = time.thread_time()
        try:
            return part(*given, **named)
        finally:
            spent.append(1000 * (time.thread_time() - started))

    put = owner.__setitem__ if isinstance(owner, dict) else partial(setattr, owner)
    put(name, watched)
    try:
        yield
    finally:
        put(name, part)


PARTS: dict[str, tuple[Any, str]] = {
    **{lane: (INDEPENDENT_LANES, lane) for lane in INDEPENDENT_LANES},
    "graph": (search, "graph_lane"),
    "fusion": (search, "fuse"),
    "certainty": (search, "has_answer"),
    "hits": (search, "hits"),
}
"""The parts of a recall, and where the function of each is looked up."""


def _words(trial: Trial, memory: Memory) -> Report:
    """Time to rank by words, with and without the words of neighbours."""
    spent: dict[str, list[float]] = {"with_context": [], "without_context": []}
    with memory.store.view() as view:
        index = view.snapshot().index
        for question in trial.kept:
            terms = view.term_numbers(stems(query_terms(question.text)))
            for way, times in spent.items():
                index.past = way == "without_context"  # an index of the past ignores neighbours
                started = time.thread_time()
                index.lexical(terms, None)
                times.append(1000 * (time.thread_time() - started))
        index.past = False
    return {f"{way}_ms": round(float(np.median(times)), 3) for way, times in spent.items()}


def _side_by_side(
    trial: Trial, memory: Memory
) -> tuple[dict[str, Stopwatch], dict[str, list[Sequence[Any]]]]:
    """Each question to each in turn, after each has answered it once."""
    ways: dict[str, Callable[[Question], Sequence[Any]]] = {
        "recall": lambda question: trial.answer(memory, question)
    }
    if baseline := trial.baseline:
        ways["baseline"] = lambda question: baseline.recall(
            question.text, trial.vector(question), trial.args.top_k
        )
    watches = {way: Stopwatch() for way in ways}
    answers: dict[str, list[Sequence[Any]]] = {way: [] for way in ways}
    for question in _twice(trial.kept, ways.values()):
        for way, ask in ways.items():
            answers[way].append(watches[way].time(ask, question))
    return watches, answers


def _twice(
    questions: Sequence[Question], ways: Iterable[Callable[[Question], object]]
) -> Iterator[Question]:
    """The questions, each asked once before, in portions so small that all vectors are kept."""
    with tqdm(total=len(questions), desc="asking", unit=" questions") as bar:
        for start in range(0, len(questions), BATCH_ITEMS):
            portion = questions[start : start + BATCH_ITEMS]
            for question in portion:
                for ask in ways:
                    ask(question)
            for question in portion:
                yield question
                bar.update()


def _lanes(trial: Trial, memory: Memory, answers: Sequence[Sequence[Hit]]) -> Report:
    """Each lane asked alone, though the graph starts from what all the others find."""
    report = {}
    for lane in LANES:
        found = sum(any(lane in hit["lanes"] for hit in hits) for hits in answers)
        times = _of_lane(trial, partial(trial.answer, memory, strategy=f"{lane}_only"))
        report[lane] = times | {"hits_pct": round(100 * found / len(answers), 1)}
    return report


def _baseline_lanes(trial: Trial, baseline: Baseline) -> Report:
    def asking(look: Look) -> Callable[[Question], Sequence[Any]]:
        return lambda question: look(question.text, trial.vector(question))

    return {lane: _of_lane(trial, asking(look)) for lane, look in baseline.lanes().items()}


def _of_lane(trial: Trial, ask: Callable[[Question], Sequence[Any]]) -> Report:
    watch = Stopwatch()
    for question in tqdm(trial.kept, desc="asking a lane", unit=" questions"):
        watch.time(ask, question)
    summary = watch.summary()
    return {key: summary[key] for key in ("p50_ms", "p95_ms", "cpu_p50_ms")}


# -- comparing --


def _ratios(report: Report) -> Report:
    """How many times as long the plain design takes."""
    theirs, ours = report["baseline"], report["recall"]
    return {
        f"{clock}_ratio_{percent}": round(theirs[key] / max(ours[key], 1e-6), 2)
        for clock, start in (("cpu", "cpu_"), ("wall", ""))
        for percent in ("p50", "p95")
        for key in [f"{start}{percent}_ms"]
    }


def _agreement(
    trial: Trial, memory: Memory, answers: Mapping[str, Sequence[Sequence[Any]]]
) -> Report:
    """Of the plain design's answers, and of the exactly nearest one and ten, the share found.

    The vector lane may leave out, among the ten, what is no nearer than chance.
    """
    if not trial.baseline:
        return {}
    numbers = {chunk_id: number for number, chunk_id in enumerate(trial.ids, start=1)}
    ours = [[numbers.get(hit["chunk_id"]) for hit in hits] for hits in answers["recall"]]
    report = {"answers": _shared(answers["baseline"], ours)}
    if trial.vectors:
        exact, look = _exact(trial), trial.baseline.lanes()["vector"]
        theirs = [look(each.text, trial.vector(each))[:EXACT] for each in trial.kept]
        found = [_nearest(memory, each, numbers) for each in trial.kept]
        report["nearest"] = _shared(*([some[:1] for some in lists] for lists in (exact, found)))
        report |= {"exact": _shared(exact, found), "baseline_exact": _shared(exact, theirs)}
    return report


def _exact(trial: Trial) -> list[list[int]]:
    """The numbers of the memories whose vectors are nearest to each question's."""
    asked = [vector for each in trial.kept if (vector := trial.vector(each)) is not None]
    cosines = np.stack(asked) @ np.concatenate(trial.vectors).T
    best = np.argsort(-cosines, axis=1, kind="stable")[:, :EXACT] + 1
    return [row.tolist() for row in best]


def _nearest(memory: Memory, question: Question, numbers: Mapping[str, int]) -> list[int | None]:
    """The numbers of what the vector lane ranks highest, in whatever order it is answered."""
    found = memory.recall(question.text, top_k=100, strategy="vector_only", max_tokens=0)["hits"]
    ranks = {hit["lanes"].get("vector", EXACT + 1): numbers.get(hit["chunk_id"]) for hit in found}
    return [ranks[rank] for rank in sorted(ranks) if rank <= EXACT]


def _shared(wanted: Sequence[Sequence[Any]], found: Sequence[Sequence[Any]]) -> float:
    """The share of what is wanted that was found.

    >>> _shared([[1, 2], [3]], [[1], [3]])
    0.6667
    """
    both = sum(len({*some} & {*others}) for some, others in zip(wanted, found, strict=True))
    return round(both / max(1, sum(map(len, wanted))), 4)


# --- The tables ------------------------------------------------------------------------

COLUMNS = ("p50", "p95", "p99", "min", "max", "mean", "stdev", "cpu_p50", "cpu_p95")
WAYS = ("recall", "uncached", "together", "sequential", "baseline")


def _markdown(report: Report) -> Iterator[str]:
    """The report as a person reads it, in Markdown."""
    config, ingest = report["config"], report["ingest"]
    yield (
        f"{config['chunks']} memories, {config['queries']} questions, top {config['top_k']}, "
        f"embedder {config['embedder']} ({config['dim']}).\n"
    )
    yield (
        f"Stored in {report['seed_time_s']:.1f} s, {ingest['chunks_per_s']:.0f} a second "
        f"(embedding {ingest['embed_s']:.1f} s, storing {ingest['store_s']:.1f} s); "
        f"file {report['file_mb']:.1f} MB, process {report['rss_mb']:.0f} MB, "
        f"first answer {report['cold_start_s']:.3f} s after opening.\n"
    )
    yield from heading("ms", (*COLUMNS, "empty %"))
    for way in (way for way in WAYS if way in report):
        figures = [report[way][f"{column}_ms"] for column in COLUMNS]
        yield row(way, (*figures, report[way]["empty_pct"]))
    yield from _markdown_lanes(report)
    yield from _markdown_shares(report)
    if "baseline" in report:
        yield from _markdown_comparison(report["baseline"])


def _markdown_lanes(report: Report) -> Iterator[str]:
    theirs = report.get("baseline", {}).get("lanes", {})
    yield ""
    yield from heading(
        "ms alone", ("p50", "cpu_p50", "in hits %", *(["baseline p50"] if theirs else []))
    )
    for lane, figures in report["lanes"].items():
        shown = [figures[key] for key in ("p50_ms", "cpu_p50_ms", "hits_pct")]
        yield row(lane, shown + ([theirs[lane]["p50_ms"]] if theirs else []))


def _markdown_shares(report: Report) -> Iterator[str]:
    shares = [f"{part} {spent:.2f}" for part, spent in report["shares"].items()]
    context = [
        f"{spent:.2f} {way[:-3].replace('_', ' ')}" for way, spent in report["words"].items()
    ]
    yield f"\nShares of a recall, CPU p50 in ms: {', '.join(shares)}."
    yield f"Ranking by words alone: {', '.join(context)}."


def _markdown_comparison(baseline: Report) -> Iterator[str]:
    times = [
        f"{key.replace('_ratio_', ' ')} {value:.1f}"
        for key, value in baseline.items()
        if "_ratio_" in key
    ]
    yield f"\nThe baseline takes this many times as long: {', '.join(times)}."
    shares = [f"{name} {share:.3f}" for name, share in baseline["agreement"].items()]
    yield f"Agreement: {', '.join(shares)}."


def heading(name: str, cells: Sequence[str]) -> Iterator[str]:
    yield row(name, cells)
    yield f"|{'-' * 12}|" + "-------------:|" * len(cells)


def row(name: str, cells: Iterable[float | str]) -> str:
    shown = (cell if isinstance(cell, str) else f"{cell:.2f}" for cell in cells)
    return f"| {name:<10} |" + "".join(f" {cell:>12} |" for cell in shown)
