"""One server under mixed load for as long as asked: it stays as large as it was, and as right.

    python tests/soak.py --minutes 30 > verdict.json
    python tests/soak.py --measure

Four clients and a program of its own work on one file. Every second it is noted what the server
uses; the second half of the time may use no more than the first. A part of the memory that the
load leaves alone must give the same answers at the end. --measure prints how long calls take.
"""

# ruff: noqa: E402 (the folders of what is imported are made known first)

import argparse
import asyncio
import json
import os
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "api"))

from mcp import Client, MCPDeprecationWarning
from mcp.client.sse import sse_client

from config import Config
from crash_worker import look, open_file
from memory import Memory
from mnelo_client import MneloClient
from serving import Served, processes, serving

# --- The server ------------------------------------------------------------------------

_WITH_SMALL_MODEL = """
import sys
sys.path[:0] = sys.argv[1:3]
del sys.argv[1:3]
from functools import partial
import mcp_server; from server import server
from hash_embedder import HashEmbedder
server.Memory = partial(server.Memory, load_model=lambda recorded: HashEmbedder())
raise SystemExit(mcp_server.main())
"""
SERVER = ("-c", _WITH_SMALL_MODEL, str(ROOT), str(ROOT / "tests"))
"""The server with the tests' own embedder, so that vectors are part of the load."""

LOG_ROWS, AUDIT_ROWS = 200, 400
SETTINGS = {
    "MNELO_MEMORY_DATABASE_CACHE_MB": "8",
    "MNELO_MEMORY_DATABASE_BUSY_SECONDS": "30",
    "MNELO_MEMORY_KEEPER_LOG_ROWS": str(LOG_ROWS),
    "MNELO_MEMORY_KEEPER_AUDIT_ROWS": str(AUDIT_ROWS),
    "MNELO_MEMORY_KEEPER_INTERVAL_SECONDS": "1",
    "MNELO_MEMORY_KEEPER_IDLE_SECONDS": "0.5",
}

# --- What must stay the same -----------------------------------------------------------

FIXED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("The lighthouse keeper Ingrid polishes the lens every Thursday", ("Ingrid",)),
    ("Ingrid keeps the spare key of the lighthouse under the anchor", ("Ingrid",)),
    ("The foghorn was replaced in 1998 by a Danish workshop", ("foghorn",)),
    ("Model KX-4410 is the serial number of the lens motor", ("lens motor",)),
    ("灯塔的备用钥匙在锚下面", ("灯塔",)),
    ("灯塔管理员每周四擦拭透镜", ("灯塔",)),
    ("雾笛在一九九八年更换", ("雾笛",)),
)
QUESTIONS = (
    *(
        "who polishes the lens",
        "spare key",
        "foghorn",
        "KX-4410",
        "Ingrid's lens",
        "Danish workshop",
    ),
    *("备用钥匙", "灯塔管理员", "雾笛什么时候更换", "透镜"),
)
STRATEGIES = ("rrf", "meta_only", "entity_only", "graph_only", "vector_only")


def tell_fixed(client: MneloClient) -> None:
    for content, entities in FIXED:
        client.remember(content, entities=list(entities), session_id="fixed")
    client.relate("Ingrid", "lens motor", "looks_after")
    client.relate("灯塔", "Ingrid", "kept_by")


def warm_up(client: MneloClient) -> None:
    """As many calls at once as the server ever runs, so that it has all it will ever open."""
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(client.recall, QUESTIONS * 10))


def answers(client: MneloClient) -> dict[str, Any]:
    """The best answer to every question in every strategy, and all that is found at all.

    How the others follow depends on what else is stored: a word's rarity, the usual nearness.
    """
    said: dict[str, Any] = {}
    for question in QUESTIONS:
        for strategy in set(STRATEGIES) - {"graph_only"}:  # it starts from the five best
            fixed = {"session_id": "fixed"}
            hits = client.recall(question, strategy=strategy, filters=fixed, top_k=10)
            found = [hit["content"] for hit in hits]
            said[f"{question} ({strategy})"] = [found[:1], sorted(found)]
    graph = client.graph_query("Ingrid")
    said["the graph of Ingrid"] = [sorted(node["id"] for node in graph["nodes"]), graph["edges"]]
    return said


# --- The load --------------------------------------------------------------------------


class Agent(Protocol):
    """What a user does, through a client or directly."""

    def remember(
        self, content: str, *, source: str, entities: list[Any], tags: list[str]
    ) -> str: ...
    def recall(self, query: str, *, strategy: str) -> list[dict[str, Any]]: ...
    def update(self, old_id: str, new_content: str) -> str: ...
    def forget(self, target_id: str) -> dict[str, Any]: ...
    def relate(self, source_id: str, target_id: str, relation: str, weight: float) -> int: ...
    def graph_query(self, start_node: str) -> dict[str, Any]: ...
    def stats(self) -> dict[str, Any]: ...


class Direct:
    """Memory with the client's answers."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.stats = memory.stats

    def remember(self, content: str, **given: Any) -> str:
        return self._memory.remember(content, **given)["chunk_id"]

    def recall(self, query: str, *, strategy: str) -> list[dict[str, Any]]:
        return [dict(hit) for hit in self._memory.recall(query, strategy=strategy)["hits"]]

    def update(self, old_id: str, new_content: str) -> str:
        return self._memory.update(old_id, new_content=new_content)["new_chunk_id"]

    def forget(self, target_id: str) -> dict[str, Any]:
        return dict(self._memory.forget(target_id))

    def relate(self, source_id: str, target_id: str, relation: str, weight: float) -> int:
        return self._memory.relate(source_id, target_id, relation, weight=weight)["relation_id"]

    def graph_query(self, start_node: str) -> dict[str, Any]:
        return dict(self._memory.graph_query(start_node))


PLACES = tuple(f"{place} {number}" for place in ("quay", "silo", "仓库") for number in range(20))
KEPT = 100
SHARES = {
    "remember": 30,
    "recall": 40,
    "update": 15,
    "forget": 5,
    "relate": 6,
    "graph_query": 3,
    "stats": 1,
}


class User:
    """Works on memories of its own, and knows at any time what must be in the file."""

    def __init__(self, agent: Agent, name: str) -> None:
        self._agent, self._name, self._random = agent, name, Random(name)  # noqa: S311
        self.live: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []

    def work(self, until: Callable[[], bool], rate: float) -> "User":
        """About `rate` operations a second, until it is over."""
        while not until():
            begun = time.monotonic()
            (kind,) = self._random.choices(list(SHARES), list(SHARES.values()))
            try:
                getattr(self, f"_{kind}")()
            except Exception as error:
                self.faults.append(f"{self._name}, {kind}: {type(error).__name__}: {error}")
            self.counts[kind] += 1
            time.sleep(max(0.0, self._random.uniform(0, 2 / rate) - (time.monotonic() - begun)))
        return self

    def _text(self) -> str:
        number, place = sum(self.counts.values()), self._random.choice(PLACES)
        text = self._random.choice(
            ("parcel {0} of {1} waits at {2}", "{1} 的包裹 {0} 在 {2} 等待，明天 delivery")
        )
        return text.format(f"{self._name}x{number}", self._name, place)

    def _remember(self) -> None:
        if len(self.live) >= KEPT:
            self._forget()
        text, place = self._text(), self._random.choice(PLACES)
        tags = self._random.sample(("heavy", "易碎", "urgent"), 1)
        chunk = self._agent.remember(text, source=self._name, entities=[place], tags=tags)
        self.live[chunk] = text

    def _recall(self) -> None:
        strategy = self._random.choice(STRATEGIES)
        if not self.live or strategy != "meta_only":
            self._agent.recall(f"what waits at {self._random.choice(PLACES)}", strategy=strategy)
            return
        chunk = self._random.choice(list(self.live))
        code = next(word for word in self.live[chunk].split() if word.startswith(self._name + "x"))
        found = self._agent.recall(code, strategy=strategy)
        if chunk not in [hit["chunk_id"] for hit in found]:
            contents = [hit["content"] for hit in found]
            self.faults.append(f"{self._name}: {code} is not found, but {contents}")

    def _update(self) -> None:
        if self.live:
            old, text = self._random.choice(list(self.live)), self._text()
            new = self._agent.update(old, text)
            del self.live[old]
            self.live[new] = text

    def _forget(self) -> None:
        if self.live:
            chunk = next(iter(self.live))
            self._agent.forget(chunk)
            del self.live[chunk]

    def _relate(self) -> None:
        source, target = self._random.sample(PLACES, 2)
        self._agent.relate(source, target, "ships_to", weight=self._random.choice((0.5, 1.0)))

    def _graph_query(self) -> None:
        self._agent.relate(PLACES[0], PLACES[1], "ships_to", weight=1.0)
        self._agent.graph_query(PLACES[0])

    def _stats(self) -> None:
        self._agent.stats()

    def result(self) -> dict[str, Any]:
        return {"counts": self.counts, "faults": self.faults, "live": self.live}


def _through_client(url: str, name: str, until: Callable[[], bool], rate: float) -> dict[str, Any]:
    with MneloClient(url + "/sse", timeout=60) as client:
        return User(client, name).work(until, rate).result()


def _in_own_process(path: Path, end: float, rate: float, result: Path) -> None:
    with open_file(path) as memory:
        user = User(Direct(memory), "program").work(lambda: time.time() > end, rate)
    result.write_text(json.dumps(user.result()))


# --- What it uses ----------------------------------------------------------------------

LEVELS = {
    "rss_mb": (0.10, 4.0),
    "descriptors": (0.0, 8.0),
    "threads": (0.0, 2.0),
    "wal_mb": (0.25, 4.0),
    "recall_log_rows": (0.0, 1.5 * LOG_ROWS),
    "audit_rows": (0.0, 1.5 * AUDIT_ROWS),
}
"""By which share, and how much, the second half's median may lie above the first half's; the
tables have a bound that a short soak may only reach in its second half."""
WARM_UP = 0.2  # of the time, which is in neither half


@dataclass
class Watch:
    """Notes every second what a process and its file use."""

    pid: int
    path: Path
    samples: list[dict[str, float]] = field(default_factory=list)

    def look_until(self, over: threading.Event) -> None:
        while not over.wait(1):
            self.samples.append(self._sample())

    def _sample(self) -> dict[str, float]:
        status = Path(f"/proc/{self.pid}/status").read_text("utf-8")
        fields = dict(line.split(":", 1) for line in status.splitlines())
        wal = self.path.with_name(self.path.name + "-wal")
        tables = {"recall_log_rows": "recall_log", "audit_rows": "audit"}
        rows = {
            name: float(look(self.path, f"SELECT count(*) FROM {table}")[0][0])  # noqa: S608
            for name, table in tables.items()
        }
        return {
            "rss_mb": int(fields["VmRSS"].split()[0]) / 1024,
            "threads": float(fields["Threads"]),
            "descriptors": float(len(os.listdir(f"/proc/{self.pid}/fd"))),
            "wal_mb": wal.stat().st_size / 2**20 if wal.exists() else 0.0,
            **rows,
        }

    def levels(self) -> dict[str, dict[str, float]]:
        """For each thing the medians of both halves, the most there was, and what was allowed."""
        counted = self.samples[int(len(self.samples) * WARM_UP) :]
        middle = len(counted) // 2
        levels: dict[str, dict[str, float]] = {}
        for name, (share, more) in LEVELS.items():
            values = [sample[name] for sample in counted]
            first, second = median(values[:middle]), median(values[middle:])
            allowed = more if name.endswith("_rows") else first * (1 + share) + more
            figures = {"first": first, "second": second, "most": max(values), "allowed": allowed}
            levels[name] = {key: round(value, 2) for key, value in figures.items()}
        return levels


# --- The soak --------------------------------------------------------------------------


def soak(folder: Path, minutes: float, rate: float) -> dict[str, Any]:
    """The verdict: what was done, what was used, and what was wrong, which is nothing if all is
    well."""
    with serving(folder, program=SERVER, **SETTINGS) as served:
        path, over = folder / "memory.db", threading.Event()
        watch = Watch(served.process.pid, path)
        with MneloClient(served.url + "/sse", timeout=60) as client, ThreadPoolExecutor(1) as pool:
            tell_fixed(client)
            warm_up(client)
            before = answers(client)
            watching = pool.submit(watch.look_until, over)
            try:
                results = _load(served, path, time.time() + minutes * 60, rate)
            finally:
                over.set()
            watching.result()
            after = answers(client)
        served.process.terminate()
        if status := served.process.wait(60):
            results.append({"faults": [f"the server ended with {status}"]})
        said = served.stderr()
    faults = [fault for result in results for fault in result["faults"]]
    faults += [line for line in said.splitlines() if " ERROR " in line or " WARNING " in line]
    faults += [f"{name}: {before[name]} became {after[name]}" for name in _changed(before, after)]
    faults += _lost(path, results)
    with open_file(path) as memory:
        faults += [
            f"check: {count} {name}" for name, count in memory.store.check().items() if count
        ]
    return _verdict(minutes, results, watch.levels(), faults)


def _changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [name for name in before if before[name] != after[name]]


def _load(served: Served, path: Path, end: float, rate: float) -> list[dict[str, Any]]:
    """What four clients and a program have done when the time is over."""

    def over() -> bool:
        return time.time() > end

    told = path.with_name("program.json")
    program = processes().Process(target=_in_own_process, args=(path, end, rate, told))
    program.start()
    with ThreadPoolExecutor(4) as pool:
        users = [
            pool.submit(_through_client, served.url, f"user{number}", over, rate)
            for number in range(4)
        ]
    program.join()
    if program.exitcode:
        return [{"faults": [f"the program ended with {program.exitcode}"]}]
    return [*(user.result() for user in users), json.loads(told.read_text())]


def _lost(path: Path, results: Iterable[dict[str, Any]]) -> list[str]:
    """What somebody was told is stored and is not there as it was given."""
    live = "SELECT id, content FROM chunks WHERE valid_until IS NULL"
    stored = {row[0]: row[1] for row in look(path, live)}
    notes = {key: text for result in results for key, text in result.get("live", {}).items()}
    return [f"lost: {key}: {text}" for key, text in notes.items() if stored.get(key) != text]


def _verdict(
    minutes: float,
    results: list[dict[str, Any]],
    levels: dict[str, dict[str, float]],
    faults: list[str],
) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    for result in results:
        counts.update(result.get("counts", {}))
    grown = [f"{name} grew: {each}" for name, each in levels.items() if _grew(each)]
    return {
        "minutes": minutes,
        "operations": sum(counts.values()),
        "kinds": dict(counts),
        "levels": levels,
        "faults": [*faults, *grown],
    }


def _grew(level: dict[str, float]) -> bool:
    return level["second"] > level["allowed"]


# --- Measuring -------------------------------------------------------------------------

STORED = 2000
SYLLABLES = ("ka", "lo", "mir", "ten", "bu", "sa", "ves", "on", "ri", "del", "gu", "pan")
LATIN = tuple(a + b + c for a in SYLLABLES for b in SYLLABLES for c in SYLLABLES)
CHINESE = tuple(chr(0x4E00 + 7 * a) + chr(0x5E00 + 7 * b) for a in range(40) for b in range(40))


def _words(random: Random, count: int) -> str:
    """Words as a language has them: a few are everywhere, most are rare."""
    vocabulary, space = random.choice(((LATIN, " "), (LATIN, " "), (CHINESE, "")))
    places = (int(len(vocabulary) * random.random() ** 3) for _ in range(count))
    return space.join(vocabulary[place] for place in places)


@contextmanager
def _measured_server() -> Iterator[str]:
    """The URL of a server with some memories and no model."""
    random = Random(0)  # noqa: S311
    items = [
        {"content": _words(random, 25), "entities": [random.choice(PLACES)]} for _ in range(STORED)
    ]
    with TemporaryDirectory() as folder, serving(Path(folder)) as served:
        settings = Config.load({"MNELO_HOME": folder}, embedder_model="none")
        with Memory(config=settings) as memory:
            for start in range(0, STORED, 100):
                memory.remember_many(items[start : start + 100])
        yield served.url + "/sse"


async def _timed(call: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    await call()
    return (time.perf_counter() - begun) * 1000


async def _recalls(url: str, count: int, rate: float | None, seed: int) -> list[float]:
    """Milliseconds of each recall, as many a second, or one after the other."""
    random, spent = Random(seed), []  # noqa: S311
    async with Client(sse_client(url)) as client:
        for _ in range(count):
            given = {"query": _words(random, 4)}
            spent.append(await _timed(lambda: client.call_tool("memory_recall", given)))  # noqa: B023
            if rate:
                await asyncio.sleep(max(0.0, random.uniform(0, 2 / rate) - spent[-1] / 1000))
    return spent


async def _writes(url: str, seed: int, count: int, rate: float | None) -> None:
    random = Random(seed)  # noqa: S311
    async with Client(sse_client(url)) as client:
        for number in range(count):
            given = {"content": _words(random, 25), "entities": [PLACES[number % 60]]}
            await client.call_tool("memory_remember", given)
            if rate:
                await asyncio.sleep(1 / rate)


def _writers(url: str, writers: int, count: int, rate: float | None) -> None:
    """In a process of its own, so that it costs those who measure nothing."""

    async def write() -> None:
        await asyncio.gather(*(_writes(url, 100 + n, count, rate) for n in range(writers)))

    asyncio.run(write())


async def _pings(url: str, while_alive: Callable[[], bool]) -> list[float]:
    warnings.simplefilter("ignore", MCPDeprecationWarning)  # the cheapest call there is
    spent = []
    async with Client(sse_client(url), mode="legacy") as client:
        while while_alive():
            spent.append(await _timed(client.send_ping))
            await asyncio.sleep(0.01)
    return spent


async def _many_recalls(url: str) -> list[float]:
    each = await asyncio.gather(*(_recalls(url, 40, 2.0, seed) for seed in range(16)))
    return [spent for client in each for spent in client]


def _percent(spent: list[float]) -> dict[str, float]:
    cuts = quantiles(spent, n=100)
    return {f"p{at}": round(cuts[at - 1], 1) for at in (50, 95, 99)} | {"calls": len(spent)}


def measure() -> dict[str, Any]:
    """Milliseconds of recalls over SSE, quiet and beside others, and of pings beside a writer."""
    with _measured_server() as url:
        quiet = asyncio.run(_recalls(url, 400, None, 0))
        writers = processes().Process(target=_writers, args=(url, 4, 100, 5.0))
        writers.start()
        busy = asyncio.run(_many_recalls(url))
        writers.join()
        writer = processes().Process(target=_writers, args=(url, 1, 1000, None))
        writer.start()
        pings = asyncio.run(_pings(url, writer.is_alive))
    figures = {"quiet": _percent(quiet), "16 ask, 4 write": _percent(busy), "ping": _percent(pings)}
    ratio = figures["16 ask, 4 write"]["p95"] / figures["quiet"]["p95"]
    return {**figures, "p95 beside others, times quiet": round(ratio, 2)}


# --- The command -----------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--rate", type=float, default=10.0, help="operations a second of each user")
    parser.add_argument("--folder", type=Path, help="an empty folder; a temporary one if not given")
    parser.add_argument("--nice", type=int, default=0, help="by how much to give way to others")
    parser.add_argument("--measure", action="store_true", help="print how long calls take")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    os.nice(given.nice)
    if given.measure:
        print(json.dumps(measure(), indent=1))
        return 0
    with TemporaryDirectory() as spare:
        verdict = soak(given.folder or Path(spare), given.minutes, given.rate)
    print(json.dumps(verdict, indent=1, ensure_ascii=False))
    return 1 if verdict["faults"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
