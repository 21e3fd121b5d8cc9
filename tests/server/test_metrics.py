"""/metrics: every value is made to happen first, and then read as Prometheus reads it."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from prometheus_client.parser import text_string_to_metric_families

from core.errors import StoreBusy
from memory import Memory
from server import tools
from server.metrics import Metrics
from server.tools import build_server
from server.transport import LOOPBACK, App, Hosts
from serving import serving

TOKEN = "s3cret-of-the-tests"  # noqa: S105
Values = dict[tuple[str, ...], float]


def values(page: bytes) -> Values:
    """Each value by its name and its labels' values; a bucket's bound comes first."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


async def use_every_tool(client: Client) -> None:
    async def ask(tool: str, **arguments: Any) -> dict[str, Any]:
        result = await client.call_tool(f"memory_{tool}", arguments)
        return dict(result.structured_content or {})

    stored = [
        await ask("remember", content=f"the boat number {number}", entities=["boat"])
        for number in range(4)
    ]
    related = await ask("relate", source_id="boat", target_id="harbour", relation="lies_in")
    await ask("relate", source_id="boat", target_id="gone", relation="lies_in")
    await ask("update", old_id=stored[0]["chunk_id"], new_content="the ship number 0")
    await ask("forget", target_id=stored[1]["chunk_id"])
    await ask("forget", target_id=stored[2]["chunk_id"], target_kind="")
    await ask("forget", target_id=str(related["relation_id"]), target_kind="relation")
    await ask("forget", target_id="gone", target_kind="entity")
    await ask("recall", query="boat")
    await ask("recall", query="boat number", strategy="rrf")
    await ask("recall", query="boat", strategy="meta_only")
    await ask("recall", query="zeppelin", strategy="meta_only")


@pytest.fixture
def counted(memory: Memory) -> Values:
    """What is told after every tool was used, and some calls were refused."""
    page = Metrics(memory.stats)

    async def session() -> None:
        server = build_server(memory, [tools.core(memory, memory.config)], page.count)
        async with Client(server) as client:
            await use_every_tool(client)
            await client.call_tool("memory_recall", {"query": "boat", "strategy": "guess"})
            await client.call_tool("memory_forget", {"target_id": "nothing of that name"})

    asyncio.run(session())
    memory.fill_pending()
    return values(page.page()[0])


def test_calls_are_counted_by_what_they_asked_for(counted: Values) -> None:
    counters = {key: count for key, count in counted.items() if key[0].endswith("_total")}

    assert counters == {
        ("mnelo_remember_total",): 4,
        ("mnelo_relate_total",): 2,
        ("mnelo_update_total",): 1,
        ("mnelo_forget_total", "chunk"): 2,
        ("mnelo_forget_total", "relation"): 1,
        ("mnelo_forget_total", "entity"): 1,
        ("mnelo_recall_total", "rrf"): 2,
        ("mnelo_recall_total", "meta_only"): 2,
        ("mnelo_recall_hits_total", "found"): 3,
        ("mnelo_recall_hits_total", "empty"): 1,
    }


def test_the_latency_of_recalls_is_a_histogram_by_strategy(counted: Values) -> None:
    name = "mnelo_recall_latency_seconds"

    assert counted[f"{name}_count", "rrf"] == counted[f"{name}_bucket", "+Inf", "rrf"] == 2
    assert counted[f"{name}_count", "meta_only"] == 2
    assert 0 < counted[f"{name}_sum", "rrf"] < 10
    assert counted[f"{name}_bucket", "10.0", "rrf"] == 2


def test_a_recall_counts_in_the_bucket_of_its_time(memory: Memory) -> None:
    page = Metrics(memory.stats)
    page.count("memory_recall", {"query": "x"}, {"hits": []}, 0.03)
    told = values(page.page()[0])

    name = "mnelo_recall_latency_seconds"
    assert told[f"{name}_bucket", "0.02", "rrf"] == 0
    assert told[f"{name}_bucket", "0.05", "rrf"] == 1
    assert told[f"{name}_sum", "rrf"] == pytest.approx(0.03)


def test_sizes_are_those_of_the_memory_when_somebody_looks(counted: Values, memory: Memory) -> None:
    stats = memory.stats()

    # Four memories less two, and one of those two in its second version.
    assert counted["mnelo_db_chunks",] == 2
    assert counted["mnelo_db_entities",] == 2
    assert counted["mnelo_db_relations",] == 0
    assert counted["mnelo_db_vectors",] == 2
    assert counted["mnelo_pending_vectors",] == 0
    assert counted["mnelo_db_size_bytes",] == stats["db"]["db_bytes"] > 0
    assert counted["mnelo_db_wal_bytes",] == stats["db"]["wal_bytes"] > 0


def test_memories_that_wait_for_vectors_are_told(wordless: Memory) -> None:
    wordless.remember("nobody embeds this")

    assert values(Metrics(wordless.stats).page()[0])["mnelo_pending_vectors",] == 1


def test_two_servers_in_one_process_count_for_themselves(memory: Memory) -> None:
    one, other = Metrics(memory.stats), Metrics(memory.stats)
    one.count("memory_update", {}, {}, 0.1)

    assert values(one.page()[0])["mnelo_update_total",] == 1
    assert values(other.page()[0])["mnelo_update_total",] == 0


@pytest.mark.skipif(sys.platform != "linux", reason="compares with /proc")
def test_the_memory_of_the_process_is_told_in_bytes(memory: Memory) -> None:
    told = values(Metrics(memory.stats).page()[0])["mnelo_process_rss_bytes",]

    status = Path("/proc/self/status").read_text()
    kibibytes = int(status.partition("VmRSS:")[2].split()[0])
    assert told == pytest.approx(kibibytes * 1024, rel=0.1)


def test_a_system_that_cannot_tell_its_memory_leaves_it_out(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")

    assert ("mnelo_process_rss_bytes",) not in values(Metrics(memory.stats).page()[0])


def test_prometheus_is_told_behind_the_token(tmp_path: Path) -> None:
    with serving(tmp_path, MNELO_AUTH_TOKEN=TOKEN) as server:
        url = server.url + "/metrics"
        assert httpx2.get(url).status_code == 401
        answer = httpx2.get(url, headers={"Authorization": f"Bearer {TOKEN}"})

    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    told = values(answer.content)
    assert told["mnelo_db_chunks",] == 0
    assert 0 < told["mnelo_uptime_seconds",] < 30


def test_a_database_that_is_busy_is_no_fault_of_the_server(tmp_path: Path) -> None:
    def busy() -> tuple[bytes, str]:
        raise StoreBusy("store.busy", path=tmp_path, seconds=5)

    app = App(
        build_server(Memory.__new__(Memory), []),
        sse=False,
        hosts=Hosts(LOOPBACK),
        token=None,
        max_bytes=1 << 20,
        health=dict,
        metrics=busy,
    )

    async def ask() -> tuple[int, str]:
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport) as client:
            answer = await client.get("http://localhost/metrics")
            return answer.status_code, answer.text

    status, told = asyncio.run(ask())

    assert status == 503
    assert "Another program is writing" in told
