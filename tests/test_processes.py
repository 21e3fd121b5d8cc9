"""Several processes and many clients on one file: nobody fails, and every write is there."""

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from typing import Any

import pytest

from core.errors import StoreBusy
from core.types import NewChunk
from crash_worker import look, open_file
from index.analysis import Indexed
from inside import look_for_faults, sqlite_of
from memories import Open
from memory import Memory
from mnelo_client import MneloClient, MneloError
from serving import Served, processes, serving

# --- Four servers and four programs in one empty folder --------------------------------

ANIMALS = ("heron", "otter", "badger", "marten", "falcon", "beaver", "weasel", "pigeon")
NOTES = 5
UPDATES = 10
LEDGER = "the common ledger"


@dataclass(frozen=True, slots=True)
class Agent:
    """A user of the memory, through a server or in its own process."""

    remember: Callable[[str], str]
    recall: Callable[[str], list[dict[str, Any]]]
    update: Callable[[str, str], str]


def _through(client: MneloClient) -> Agent:
    return Agent(
        lambda text: client.remember(text),
        lambda query: client.recall(query, top_k=20),
        lambda chunk, text: client.update(chunk, text),
    )


def _directly(memory: Memory) -> Agent:
    return Agent(
        lambda text: memory.remember(text)["chunk_id"],
        lambda query: [dict(hit) for hit in memory.recall(query, top_k=20)["hits"]],
        lambda chunk, text: memory.update(chunk, new_content=text)["new_chunk_id"],
    )


def _notes(number: int) -> set[str]:
    return {f"a {ANIMALS[number]} was seen at pond {note}" for note in range(NOTES)}


def _take_part(agent: Agent, number: int, together: Barrier) -> None:
    """Write at once; find what all others wrote; change what all others change."""
    for note in _notes(number):
        agent.remember(note)
    if number == 0:
        agent.remember(LEDGER)
    together.wait(50)
    for other, animal in enumerate(ANIMALS):
        found = {hit["content"] for hit in agent.recall(animal)}
        assert _notes(other) <= found, f"{ANIMALS[number]} does not find all of {animal}: {found}"
    (ledger,) = (hit["chunk_id"] for hit in agent.recall(LEDGER) if hit["content"] == LEDGER)
    together.wait(50)
    for change in range(UPDATES):
        agent.update(ledger, f"{LEDGER}, {ANIMALS[number]} {change}")


def _program(path: Path, number: int, together: Barrier) -> None:
    with open_file(path) as memory:
        _take_part(_directly(memory), number, together)


def _server(folder: Path, path: Path, number: int, together: Barrier) -> str:
    """What the server said."""
    home = folder / f"home{number}"
    home.mkdir()
    with (
        serving(home, MNELO_MEMORY_DB_PATH=str(path)) as served,
        MneloClient(served.url + "/sse") as client,
    ):
        _take_part(_through(client), number, together)
        client.close()
        served.end()
        return served.stderr()


@pytest.mark.timeout(120)
def test_four_servers_and_four_programs_share_a_file_that_none_of_them_found(
    tmp_path: Path,
) -> None:
    path = tmp_path / "shared" / "memory.db"
    together = processes().Barrier(8)
    programs = [processes().Process(target=_program, args=(path, n, together)) for n in range(4)]
    for program in programs:
        program.start()
    with ThreadPoolExecutor(4) as threads:
        servers = [threads.submit(_server, tmp_path, path, n, together) for n in range(4, 8)]
    said = [server.result() for server in servers]
    for program in programs:
        program.join()
    assert [program.exitcode for program in programs] == [0] * 4
    assert not re.findall(r".*(?:ERROR|WARNING|Traceback).*", "".join(said))
    _assert_every_note_is_there(path)
    _assert_one_linear_history(path)
    with open_file(path) as memory:
        assert not any(look_for_faults(memory).values()), look_for_faults(memory)


def _assert_every_note_is_there(path: Path) -> None:
    live = "SELECT content FROM chunks WHERE valid_until IS NULL AND content LIKE 'a %'"
    contents = [row[0] for row in look(path, live)]
    assert sorted(contents) == sorted(set[str]().union(*map(_notes, range(8))))


def _assert_one_linear_history(path: Path) -> None:
    sql = "SELECT id, content, valid_until, superseded_by FROM chunks WHERE content LIKE ?"
    versions = {row[0]: row[1:] for row in look(path, sql, (LEDGER + "%",))}
    (first,) = (key for key, row in versions.items() if row[0] == LEDGER)
    line = [first]
    while following := versions[line[-1]][2]:
        line.append(following)
    assert len(line) == len(set(line)) == len(versions) == 1 + 8 * UPDATES
    assert [key for key, row in versions.items() if row[1] is None] == [line[-1]]
    changes = {f"{LEDGER}, {animal} {n}" for animal in ANIMALS for n in range(UPDATES)}
    assert {versions[key][0] for key in line} == changes | {LEDGER}


# --- One process that stops in the middle of a write -----------------------------------


def _write_half_and_stop(path: Path, begun: Event) -> None:
    text = "half a memory"
    with open_file(path) as memory, sqlite_of(memory).writing("test") as writer:
        writer.put_chunks([NewChunk(text, "t", "s", 0.5, None)], [Indexed(text)])
        begun.set()
        os.kill(os.getpid(), signal.SIGSTOP)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGSTOP")
def test_a_process_that_stops_in_a_write_holds_up_no_reader_and_writers_only_for_the_set_time(
    tmp_path: Path, open_memory: Open
) -> None:
    memory = open_memory(database_busy_seconds=1)
    memory.remember("the first memory")
    settings = {"MNELO_MEMORY_DB_PATH": str(memory.path), "MNELO_MEMORY_DATABASE_BUSY_SECONDS": "1"}
    with serving(tmp_path, **settings) as served, MneloClient(served.url + "/sse") as client:
        begun = processes().Event()
        stopped = processes().Process(target=_write_half_and_stop, args=(memory.path, begun))
        stopped.start()
        assert begun.wait(30)
        try:
            _assert_busy(lambda: memory.remember("meanwhile"))
            _assert_busy(lambda: client.remember("meanwhile"))
            for hits in (memory.recall("first")["hits"], client.recall("first")):
                assert [hit["content"] for hit in hits] == ["the first memory"]
        finally:
            stopped.kill()
            stopped.join()
        client.remember("the second memory")
        memory.remember("the third memory")
        assert {hit["content"] for hit in client.recall("memory")} == {
            *("the first memory", "the second memory", "the third memory")
        }
    assert not any(look_for_faults(memory).values()), look_for_faults(memory)


def _assert_busy(write: Callable[[], object]) -> None:
    with pytest.raises((StoreBusy, MneloError), match=r"did not finish within 1(\.0)? s"):
        write()


# --- Many clients of one server --------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served")) as served:
        yield served


def _ask(served: Served, until: Callable[[], bool]) -> int:
    """Recall again and again; how often."""
    count = 0
    with MneloClient(served.url + "/sse") as client:
        while not until():
            assert [hit["content"] for hit in client.recall("kettle")] == ["The kettle is blue"]
            count += 1
    return count


def _tell(served: Served, number: int, until: Callable[[], bool]) -> list[str]:
    """Store one memory after another; their texts."""
    told: list[str] = []
    with MneloClient(served.url + "/sse") as client:
        while not until():
            told.append(f"entry {len(told)} of writer {number} 第{len(told)}条")
            client.remember(told[-1], entities=[f"writer {number}", "everybody"])
    return told


def test_sixteen_clients_recall_while_four_write(server: Served) -> None:
    with MneloClient(server.url + "/sse") as client:
        client.remember("The kettle is blue")
    end = time.monotonic() + 3

    def over() -> bool:
        return time.monotonic() > end

    with ThreadPoolExecutor(20) as threads:
        asking = [threads.submit(_ask, server, over) for _ in range(16)]
        telling = [threads.submit(_tell, server, number, over) for number in range(4)]
    assert all(each.result() for each in asking)
    told = [text for each in telling for text in each.result()]
    stored = {row[0] for row in look(server.home / "memory.db", "SELECT content FROM chunks")}
    assert len(told) >= 4
    assert set(told) <= stored
    assert "ERROR" not in server.stderr()


def test_while_one_client_stores_eighty_memories_anothers_calls_succeed(
    server: Served,
) -> None:
    texts = [f"stored one by one, number {number}" for number in range(80)]
    with ThreadPoolExecutor(1) as thread:
        storing = thread.submit(_store, server, texts)
        rounds = _use_everything(server, storing)
    storing.result()
    stored = {row[0] for row in look(server.home / "memory.db", "SELECT content FROM chunks")}
    assert set(texts) <= stored
    assert rounds


def _store(served: Served, texts: list[str]) -> None:
    with MneloClient(served.url + "/sse") as client:
        for text in texts:
            client.remember(text)


def _use_everything(served: Served, storing: "Future[None]") -> int:
    """Call each tool until the other is done; how often."""
    rounds = 0
    with MneloClient(served.url + "/sse") as client:
        while not storing.done() or not rounds:
            chunk = client.remember(f"the lamp of round {rounds} is lit", entities=["lamp"])
            relation = client.relate("lamp", "table", "stands_on")
            newer = client.update(chunk, f"the lamp of round {rounds} is out")
            assert newer in [hit["chunk_id"] for hit in client.recall(f"lamp of round {rounds}")]
            assert client.graph_query("lamp")["edges"][0]["id"] == relation
            assert client.forget(newer)["forgotten"] == 1
            assert client.stats()["chunks"]["active"] > 0
            rounds += 1
    return rounds
