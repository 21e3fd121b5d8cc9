"""What other programs have stored arrives whole, once, and what is wrong with it is named."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import embedder
import import_holdings
import import_identity_facts
import import_memories
import migrate_to_mnelo
from config import Config
from hash_embedder import HashEmbedder
from memory import Memory
from transfer import formats, importers
from transfer.formats import Found

Captured = pytest.CaptureFixture[str]
Counts = dict[str, int]


@pytest.fixture(autouse=True)
def wordless_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNELO_MEMORY_EMBEDDER_MODEL", "none")
    monkeypatch.setenv("MNELO_MEMORY_TIMEZONE", "utc")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "new.db"


def opened(database: Path) -> Memory:
    return Memory(config=Config.load(database_path=str(database)))


def table(database: Path) -> dict[str, Counts]:
    with opened(database) as memory:
        stats = memory.stats()
    return {name: stats[name] for name in ("chunks", "entities", "relations")}


def told(capsys: Captured, run: Callable[[], int], status: int = 0) -> tuple[Counts, list[str]]:
    """How many records were new, there and refused, and where something was wrong."""
    assert run() == status
    said = json.loads(capsys.readouterr().out)
    counts = {name: said[name] for name in ("new", "there", "refused")}
    return counts, [each["place"] for each in said["problems"]]


def imported(
    capsys: Captured, name: str, path: Path, database: Path, status: int = 0
) -> tuple[Counts, list[str]]:
    """What the first run says. A dry run before says the same and leaves no file; a second run
    adds nothing."""
    arguments = ["--from", name, str(path), "--db", str(database), "--json"]
    dry = told(capsys, lambda: import_memories.main([*arguments, "--dry-run"]), status)
    assert not database.exists()
    first = told(capsys, lambda: import_memories.main(arguments), status)
    assert dry == first
    before = table(database)
    again, _ = told(capsys, lambda: import_memories.main(arguments), status)
    assert (again["new"], again["there"]) == (0, first[0]["new"])
    assert table(database) == before
    return first


def hits(database: Path, query: str, **more: Any) -> list[str]:
    with opened(database) as memory:
        return [hit["content"] for hit in memory.recall(query, **more)["hits"]]


# --- The official memory server --------------------------------------------------------


def test_the_memory_servers_entities_observations_and_relations(
    tmp_path: Path, database: Path, capsys: Captured
) -> None:
    records = [
        '{"type":"entity","name":"Mara Voss","entityType":"person",'
        '"observations":["plays the cello","lives in Riga"]}',
        '{"type":"entity","name":"Quartet","entityType":"group","observations":[]}',
        '{"type":"relation","from":"Mara Voss","to":"Quartet","relationType":"plays_in"}',
        '{"type":"entity","name":"Half","observations":["good",null]}',
        '{"type":"entity","observ',
        '{"type":"cloud"}',
        "",
    ]
    (tmp_path / "memory.jsonl").write_bytes(
        "\r\n".join(["\ufeff" + records[0], *records[1:]]).encode()
    )
    counts, bad = imported(capsys, "server-memory", tmp_path / "memory.jsonl", database, status=1)
    assert counts == {"new": 5, "there": 0, "refused": 3}
    assert bad == ["memory.jsonl:4", "memory.jsonl:5", "memory.jsonl:6"]
    assert hits(database, "who plays the cello")[0] == "Mara Voss: plays the cello"
    with opened(database) as memory:
        shown = memory.show_entity("Mara Voss")
        assert shown["kind"] == "person"
        assert [(each["relation"], each["target_id"]) for each in shown["relations"]] == [
            ("plays_in", "Quartet")
        ]


def test_what_was_updated_or_forgotten_since_does_not_come_back(
    tmp_path: Path, database: Path, capsys: Captured
) -> None:
    file = tmp_path / "memory.jsonl"
    file.write_text('{"type":"entity","name":"Tom","observations":["is tall","is old","is here"]}')
    arguments = ["--from", "server-memory", str(file), "--db", str(database), "--json"]
    told(capsys, lambda: import_memories.main(arguments))
    with opened(database) as memory:
        ids = {hit["content"]: hit["chunk_id"] for hit in memory.recall("Tom is")["hits"]}
        memory.forget(ids["Tom: is tall"])
        memory.update(ids["Tom: is old"], new_content="Tom is 90.")
    before = table(database)
    counts, _ = told(capsys, lambda: import_memories.main(arguments))
    assert counts == {"new": 0, "there": 3, "refused": 0}
    assert table(database) == before


def test_an_entity_that_was_forgotten_is_there_again_when_something_new_is_said_of_it(
    tmp_path: Path, database: Path, capsys: Captured
) -> None:
    file = tmp_path / "memory.jsonl"
    arguments = ["--from", "server-memory", str(file), "--db", str(database), "--json"]
    file.write_text('{"type":"entity","name":"Tom","entityType":"cat","observations":["purrs"]}')
    told(capsys, lambda: import_memories.main(arguments))
    with opened(database) as memory:
        memory.forget("Tom", target_kind="entity")
    file.write_text('{"type":"entity","name":"Tom","entityType":"cat","observations":["sleeps"]}')
    told(capsys, lambda: import_memories.main(arguments))
    with opened(database) as memory:
        assert memory.show_entity("Tom")["kind"] == "cat"


# --- mem0 and mcp-memory-service -------------------------------------------------------


def test_a_mem0_export(tmp_path: Path, database: Path, capsys: Captured) -> None:
    record = {
        "id": "5d0c",
        "memory": "Prefers trains to planes",
        "user_id": "ines",
        "run_id": "trip",
        "categories": ["travel"],
        "metadata": {"type": "preference", "deep": {"a": 1}},
        "created_at": "2026-03-01T08:30:00-07:00",
    }
    edge = {"source": "ines", "relationship": "lives_in", "target": "porto"}
    whole = {"results": [record, {"id": "x"}, 7], "relations": [edge, {"source": "ines"}]}
    (tmp_path / "mem0.json").write_text(json.dumps(whole))
    counts, bad = imported(capsys, "mem0", tmp_path / "mem0.json", database, status=1)
    assert counts == {"new": 2, "there": 0, "refused": 3}
    assert bad == ["mem0.json[2]", "mem0.json[3]", "mem0.json: relations[2]"]
    with opened(database) as memory:
        (hit,) = memory.recall("trains", filters={"session_id": "trip", "tag": "travel"})["hits"]
        shown = memory.show_chunk(hit["chunk_id"])
        assert shown["timestamp"] == "2026-03-01T15:30:00.000Z"
        assert set(shown["tags"]) == {"travel", "type: preference"}
        assert memory.show_entity("ines")["kind"] == "user"
        assert memory.show_entity("ines")["relations"][0]["target_id"] == "porto"


def test_an_mcp_memory_service_export(tmp_path: Path, database: Path, capsys: Captured) -> None:
    record = {
        "content": "The deploy key is in the vault.",
        "content_hash": "ab12",
        "tags": ["ops", "keys"],
        "created_at": 1767225600.5,
        "memory_type": "note",
        "metadata": {"host": "blue"},
    }
    late = record | {"content": "Only the text of the time", "created_at": None}
    late |= {"created_at_iso": "2026-01-02T00:00:00Z", "tags": "a, b"}
    wrong = record | {"content": "", "created_at": 1e300}
    whole = {"export_metadata": {}, "memories": [record, late, wrong]}
    file = tmp_path / "export.json"
    file.write_text(json.dumps(whole))
    counts, bad = imported(capsys, "mcp-memory-service", file, database, status=1)
    assert counts == {"new": 2, "there": 0, "refused": 1}
    assert bad == ["export.json[3]"]
    with opened(database) as memory:
        (hit,) = memory.recall("deploy", filters={"tag": "keys"})["hits"]
        shown = memory.show_chunk(hit["chunk_id"])
        assert shown["timestamp"] == "2026-01-01T00:00:00.500Z"
        assert set(shown["tags"]) == {"ops", "keys", "note", "host: blue"}


# --- Markdown --------------------------------------------------------------------------


def test_a_folder_of_notes(tmp_path: Path, database: Path, capsys: Captured) -> None:
    notes = tmp_path / "notes"
    (notes / "trips").mkdir(parents=True)
    (notes / ".obsidian").mkdir()
    (notes / ".obsidian" / "hidden.md").write_text("not a note")
    (notes / "trips" / "Norway.md").write_text(
        "---\ntags:\n  - travel\n  - '#north'\ndate: 2026-05-04\naliases: [Norge]\n---\n"
        "Before any heading.\n\n# Plan\nSee [[Ferry times|the ferry]] and [[Gear#Boots]].\n\n"
        "```\n# no heading\n```\n\n## Empty\n\n## Budget\n900 euros\n",
        "utf-8",
    )
    (notes / "Gear.md").write_text("# Gear\nBoots, coat.\n")
    (notes / "latin.md").write_bytes(b"caf\xe9")
    counts, bad = imported(capsys, "markdown", notes, database, status=1)
    assert counts == {"new": 4, "there": 0, "refused": 1}
    assert bad == ["latin.md"]
    with opened(database) as memory:
        source = {"source": "trips/Norway.md"}
        found = memory.recall("euros budget", filters={**source, "tag": "north"})["hits"]
        assert "## Budget\n900 euros" in [hit["content"] for hit in found]
        assert {hit["timestamp"] for hit in found} == {"2026-05-04T00:00:00.000Z"}
        plan = memory.recall("ferry", filters=source)["hits"][0]
        assert "# no heading" in plan["content"]
        shown = memory.show_entity("Norge")
        assert shown["entity_id"] == "Norway"
        assert {each["target_id"] for each in shown["relations"]} == {"Ferry times", "Gear"}


# --- Conversations ---------------------------------------------------------------------


def test_claudes_export_with_one_session_for_each_conversation(
    tmp_path: Path, database: Path, capsys: Captured
) -> None:
    talk = {
        "uuid": "c-1",
        "name": "Bread\nand butter",
        "created_at": "2026-02-03T04:05:06.789012Z",
        "chat_messages": [
            {
                "sender": "human",
                "text": "How long does rye rise?",
                "created_at": "2026-02-03T05:00:00Z",
            },
            {
                "sender": "assistant",
                "text": "old",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "Twelve hours."},
                    {"type": "tool_use", "name": "clock", "input": {}},
                ],
            },
            {"sender": "human", "text": " "},
            "broken",
        ],
    }
    (tmp_path / "export").mkdir()
    file = tmp_path / "export" / "conversations.json"
    file.write_text(json.dumps([talk, {"uuid": "c-2"}]))
    counts, bad = imported(capsys, "claude", tmp_path / "export", database, status=1)
    assert counts == {"new": 2, "there": 0, "refused": 2}
    assert bad == ["conversations.json[1][4]", "conversations.json[2]"]
    with opened(database) as memory:
        found = memory.recall("Twelve hours", filters={"session_id": "c-1", "tag": "assistant"})
        (hit,) = found["hits"]
        assert hit["content"] == "Twelve hours."
        assert hit["timestamp"] == "2026-02-03T04:05:06.789Z"
        assert "Bread and butter" in memory.show_chunk(hit["chunk_id"])["tags"]


def node(parent: str | None, role: str, *parts: Any, **more: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": list(parts)}
    said = {"author": {"role": role}, "content": content, "create_time": 1767225600.0, **more}
    return {"parent": parent, "message": said, "children": []}


def test_of_chatgpts_tree_the_branch_that_was_shown_last(
    tmp_path: Path, database: Path, capsys: Captured
) -> None:
    mapping = {
        "root": {"parent": None, "message": None},
        "system": node("root", "system", "You are helpful"),
        "ask": node("system", "user", "Name a river", {"asset": "image"}),
        "old": node("ask", "assistant", "The Rhine"),
        "new": node("ask", "assistant", "The ", "Danube", create_time=None),
        "call": node("new", "assistant", "search()", recipient="browser"),
        "hidden": node(
            "call", "user", "x", metadata={"is_visually_hidden_from_conversation": True}
        ),
        "end": node("hidden", "user", "Thanks"),
    }
    talk = {"conversation_id": "g-1", "title": "Rivers", "create_time": 1767225500}
    looped = {"a": node("b", "user", "Round"), "b": node("a", "user", "and round")}
    talks = [
        {**talk, "mapping": mapping, "current_node": "end"},
        {"id": "g-2", "mapping": looped, "current_node": "a"},
        {"id": "g-3", "mapping": {"only": node(None, "user", "No pointer")}, "current_node": "?"},
        {"title": "no id", "mapping": {}},
    ]
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps(talks))
    counts, bad = imported(capsys, "chatgpt", tmp_path / "export.zip", database, status=1)
    assert counts == {"new": 6, "there": 0, "refused": 1}
    assert bad == ["conversations.json[4]"]
    with opened(database) as memory:
        hit = memory.recall("Danube", filters={"session_id": "g-1"})["hits"][0]
        assert hit["content"] == "The \nDanube"
        assert hit["timestamp"] == "2025-12-31T23:58:20.000Z"
    assert "The Rhine" not in hits(database, "Rhine")
    assert not [text for text in hits(database, "search helpful") if "search" in text]


def test_a_message_that_is_too_long_for_one_memory_comes_in_pieces(
    tmp_path: Path, database: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_LIMITS_CONTENT_BYTES", "400")
    text = "\n".join(f"line {number} 线" for number in range(60))
    talk = {"uuid": "c", "chat_messages": [{"sender": "human", "text": text}]}
    (tmp_path / "c.json").write_text(json.dumps([talk]))
    counts, _ = imported(capsys, "claude", tmp_path / "c.json", database)
    assert counts["new"] > 3
    kept = hits(database, "line", top_k=100, max_tokens=0)
    assert sorted(line for piece in kept for line in piece.splitlines()) == sorted(
        text.splitlines()
    )


@pytest.mark.parametrize("name", [name for name in formats.READERS if name != "markdown"])
def test_a_file_of_another_kind_is_refused_and_makes_no_database(
    tmp_path: Path, database: Path, capsys: Captured, name: str
) -> None:
    (tmp_path / "file").write_text("dear diary")
    arguments = ["--from", name, "--db", str(database)]
    assert import_memories.main([*arguments, str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert import_memories.main([*arguments, str(tmp_path / "nothing")]) == 1
    assert capsys.readouterr().err == f"There is no {tmp_path / 'nothing'}.\n"
    (tmp_path / "file").write_text('{"a": 1}')
    assert import_memories.main([*arguments, str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert not database.exists()


# --- Mnemosyne -------------------------------------------------------------------------

MNEMOSYNE = {
    "working_memory": [
        {
            "id": "w1",
            "content": "The boat is in dock 4.",
            "source": "chat",
            "session_id": "s9",
            "timestamp": "2026-01-05T10:00:00Z",
            "importance": 0.9,
            "superseded_by": "w2",
        },
        {"id": "w2", "content": "The boat is in dock 7.", "created_at": "2026-01-06T10:00:00Z"},
        {"id": "w3", "content": None},
    ],
    "episodic_memory": [{"id": "e1", "content": "We moved the boat.", "timestamp": "2026-01-07"}],
    "triples": [
        {"subject": "boat", "predicate": "lies_in", "object": "dock 7", "confidence": 0.8},
        {"subject": "boat", "predicate": "lies_in"},
    ],
    "annotations": [
        {"memory_id": "w2", "kind": "vessel", "value": "boat"},
        {"memory_id": "gone", "kind": "vessel", "value": "boat"},
    ],
    "canonical_facts": [
        {"category": "home", "name": "berth", "body": "Berth 12", "version": 2},
        {"category": "home", "name": "berth", "body": "Berth 11", "version": 1},
    ],
    "legacy_embeddings": [[0.1]],
}


def test_a_mnemosyne_export_arrives_once_with_what_was_superseded_closed(
    tmp_path: Path, database: Path, capsys: Captured
) -> None:
    file = tmp_path / "export.jsonl"
    file.write_text(json.dumps(MNEMOSYNE, indent=1))
    arguments = ["--file", str(file), "--db", str(database), "--json"]
    dry = told(capsys, lambda: migrate_to_mnelo.main([*arguments, "--dry-run"]), 1)
    assert not database.exists()
    first = told(capsys, lambda: migrate_to_mnelo.main(arguments), 1)
    assert (
        dry
        == first
        == (
            {"new": 6, "there": 0, "refused": 3},
            ["working_memory[3]", "annotations", "triples[2]"],
        )
    )
    before = table(database)
    again, _ = told(capsys, lambda: migrate_to_mnelo.main(arguments), 1)
    assert (again["new"], again["there"]) == (0, 6)
    assert table(database) == before
    assert before["chunks"] == {"total": 6, "active": 4, "deleted": 2}
    with opened(database) as memory:
        assert memory.show_entity("boat")["kind"] == "vessel"
        assert memory.show_entity("boat")["relations"][0]["weight"] == 0.8
        assert memory.show_entity("berth")["summary"] == "Berth 12"
    assert "The boat is in dock 4." not in hits(database, "dock 4")


def test_skip_vectors_leaves_them_for_later_and_without_it_they_are_made(
    tmp_path: Path, database: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MNELO_MEMORY_EMBEDDER_MODEL")
    real = embedder.load

    def load(config: Config, recorded: str | None) -> embedder.Embedder:
        return real(config, recorded) if config.embedder_model == "none" else HashEmbedder()

    monkeypatch.setattr(embedder, "load", load)
    file = tmp_path / "export.json"
    file.write_text(json.dumps({"working_memory": [{"id": 1, "content": "One"}]}))
    arguments = ["--file", str(file), "--db", str(database), "--json"]
    told(capsys, lambda: migrate_to_mnelo.main([*arguments, "--skip-vectors"]))
    with Memory(config=Config.load(database_path=str(database), embedder_model="none")) as memory:
        assert (memory.stats()["vectors"], memory.stats()["pending"]) == (0, 1)
    file.write_text(json.dumps({"working_memory": [{"id": 2, "content": "Two"}]}))
    told(capsys, lambda: migrate_to_mnelo.main(arguments))
    with Memory(config=Config.load(database_path=str(database), embedder_model="none")) as memory:
        assert (memory.stats()["vectors"], memory.stats()["pending"]) == (2, 0)


# --- Holdings --------------------------------------------------------------------------


def test_holdings_become_stocks_positions_and_one_memory_for_each_snapshot(
    tmp_path: Path, database: Path, capsys: Captured
) -> None:
    state = tmp_path / "home" / "state"
    state.mkdir(parents=True)
    position = {
        "symbol_code": "sh600089",
        "name": "特变电工",
        "quantity": 300,
        "cost_price": 12.5,
        "market_value_yuan": 4000,
        "pnl_pct": -1.5,
    }
    bare = {"symbol_code": "AAPL"}
    whole = {"asof": "2026-06-30", "holdings": [position, bare, {"name": "no code"}]}
    (state / "holdings_1.json").write_text(json.dumps(whole))
    (state / "holdings_2.json").write_text('{"holdings": [')
    (state / "holdings_3.json").write_text('{"holdings": []}')
    arguments = ["--db", str(database), "--json"]
    dry = told(capsys, lambda: import_holdings.main([*arguments, "--dry-run"]), 1)
    assert not database.exists()
    first = told(capsys, lambda: import_holdings.main(arguments), 1)
    places = ["holdings_1.json: holdings[3]", "holdings_2.json", "holdings_3.json"]
    assert dry == first == ({"new": 1, "there": 0, "refused": 3}, places)
    before = table(database)
    assert before["chunks"]["active"] == 1
    assert before["entities"]["active"] == 5, "two stocks, two positions and the owner"
    assert before["relations"]["active"] == 4
    told(capsys, lambda: import_holdings.main(arguments), 1)
    assert table(database) == before
    with opened(database) as memory:
        shown = memory.show_entity("holding:2026-06-30:sh600089")
        assert shown["kind"] == "position_snapshot"
        assert shown["properties"]["pnl_pct"] == -1.5
        assert memory.show_entity("特变电工")["entity_id"] == "stock:sh600089"


def test_without_holdings_one_line_says_where_they_would_be(
    tmp_path: Path, capsys: Captured
) -> None:
    assert import_holdings.main([]) == 1
    assert str(tmp_path / "home" / "state") in capsys.readouterr().err


# --- Facts about the owner -------------------------------------------------------------


def test_facts_are_read_by_the_rules_of_the_settings_and_shown_by_their_memory(
    tmp_path: Path, database: Path, capsys: Captured
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(
        "[identity.rules]\nlives_in = ['\\bI live in ([A-Z]\\w+)']\n"
        "handle = ['@(\\w+)', 'known as (\\w+)']\n",
        "utf-8",
    )
    with opened(database) as memory:
        said = memory.remember("Since May I live in Porto, known as nils.")["chunk_id"]
        memory.forget(memory.remember("I live in Oslo.")["chunk_id"])
        memory.remember("Nothing of the kind.")
    arguments = ["--db", str(database), "--json"]
    before = table(database)
    dry = told(capsys, lambda: import_identity_facts.main([*arguments, "--dry-run"]))
    assert table(database) == before
    first = told(capsys, lambda: import_identity_facts.main(arguments))
    assert dry == first == ({"new": 1, "there": 0, "refused": 0}, [])
    after = table(database)
    assert after["chunks"] == before["chunks"], "no memory is added: what is there shows it"
    again, _ = told(capsys, lambda: import_identity_facts.main(arguments))
    assert again["new"] == 0
    assert table(database) == after
    with opened(database) as memory:
        edges = memory.show_entity("user")["relations"]
        assert {(edge["relation"], edge["target_id"]) for edge in edges} == {
            ("lives_in", "identity:lives_in:porto"),
            ("handle", "identity:handle:nils"),
        }
        assert {edge["evidence_chunk_id"] for edge in edges} == {said}
        assert memory.show_entity("identity:lives_in:porto")["name"] == "Porto"


def test_facts_need_rules_and_a_memory(database: Path, capsys: Captured) -> None:
    assert import_identity_facts.main(["--db", str(database)]) == 1
    assert "[identity] rules" in capsys.readouterr().err
    assert not database.exists()


# --- What is closed, long, or from another clock ---------------------------------------


def taken_in(database: Path, item: dict[str, Any], closed: str = "", **settings: Any) -> None:
    config = Config.load(database_path=str(database), **settings)
    done = importers.import_records([Found("here", item, closed)], config, dry_run=False)
    assert not done.bad


def test_what_was_imported_live_and_is_closed_by_now_is_closed(database: Path) -> None:
    item = {"content": "the ferry leaves at nine", "timestamp": "2026-01-01T10:00:00Z"}
    taken_in(database, item)
    taken_in(database, item, closed="outdated")
    assert table(database)["chunks"]["active"] == 0


def test_what_is_imported_closed_takes_no_relation_with_it(database: Path) -> None:
    edge = {"source_id": "Anna", "target_id": "Riga", "relation": "lives_in"}
    taken_in(database, {"content": "Anna is in Riga", "relations": [edge]}, closed="outdated")
    counts = table(database)
    assert (counts["chunks"]["active"], counts["relations"]["active"]) == (0, 1)


def test_a_text_too_long_for_one_memory_is_cut_between_its_lines(database: Path) -> None:
    rows = [f"line {number} of the diary" for number in range(40)]
    taken_in(database, {"content": "\n".join(rows)}, limits_content_bytes=400)
    with opened(database) as memory:
        hits = memory.recall("diary", top_k=100, max_tokens=0)["hits"]
    kept = [line for hit in hits for line in hit["content"].splitlines()]
    assert len(hits) > 1
    assert sorted(kept) == sorted(rows)


def test_a_time_in_milliseconds_is_the_same_as_in_seconds(database: Path, tmp_path: Path) -> None:
    file = tmp_path / "mem0.json"
    for at in (1_767_225_600, 1_767_225_600_000):
        file.write_text(json.dumps({"results": [{"memory": "the kettle", "created_at": at}]}))
        (found,) = formats.mem0(file)
        assert isinstance(found, Found)
        assert found.item["timestamp"] == "2026-01-01T00:00:00.000Z"
