"""Names, mentions and relations in memory: what they hold is what the file says, at any time."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from core import timestamps
from core.errors import MneloError
from core.types import LinkedRelation, RelationColumns, milliseconds
from index import links
from index.links import Links, Spellings
from inside import sqlite_of, view_of
from memories import Open
from memory import Memory
from store.sqlite import snapshots, upkeep
from store.types import Snapshot

FAR = milliseconds(["9000-01-01T00:00:00.000Z"])[0]
NOW = "2024-05-01T10:00:00.000Z"
LATER = "2030-01-01T00:00:00.000Z"


def held(memory: Memory, *, past: bool = False) -> Snapshot:
    """What recalls use, after it has heard the news."""
    with memory.store.view() as view:
        return view.snapshot(past=past)


def fresh(memory: Memory, *, past: bool = False) -> Snapshot:
    """What a process would read that has just opened the file."""
    with view_of(memory) as view:
        return snapshots.load_snapshot(view.db, past)


def told(have: Snapshot, at: int) -> dict[str, Any]:
    """Everything that the links lead to, in words, from every entity and every chunk."""
    of = have.links
    found: dict[str, Any] = {}
    name = {-1 - place: entity_id for place, entity_id in enumerate(of._ids)}

    def here(seqs: links.Numbers) -> links.Mask:
        return have.index.located(seqs) >= 0

    for node, entity_id in name.items():
        _, seqs = of.mentioning([node], links.UNLIMITED, here)
        found[f"of {entity_id}"] = (of.is_live(node), seqs.tolist())
        _, others, weights = of.steps(np.array([node]), at, links.UNLIMITED)
        ends = [name.get(other, other) for other in others.tolist()]
        found[f"from {entity_id}"] = sorted(map(str, zip(ends, weights.tolist(), strict=True)))
    for seq in have.index.field("seq")[have.index.field("live")].tolist():
        _, nodes = of.mentioned([seq])
        found[f"in {seq}"] = sorted(name[node] for node in nodes.tolist())
    return {key: value for key, value in found.items() if value not in ([], (False, []))}


NAMES = ["Ann", "Ben", "项目甲", "sh600089", "Blue Heron", "kiln", "C#"]


def _steps(memory: Memory, chance: Random) -> list[Callable[[], object]]:
    """One thing that may be done, of each kind."""
    one, two = chance.sample(NAMES, 2)
    ids = [row[0] for row in sqlite_of(memory)._db.execute("SELECT id FROM chunks")] or [""]
    relations = [row[0] for row in sqlite_of(memory)._db.execute("SELECT id FROM relations")] or [1]
    merges = [
        row[0]
        for row in sqlite_of(memory)._db.execute("SELECT id FROM audit WHERE action = 'merge'")
    ] or [1]
    related = {"source_id": one, "target_id": two, "relation": "knows", "weight": chance.random()}
    return [
        lambda: memory.remember(f"{one} met {two} {chance.random()}", entities=[one]),
        lambda: memory.remember(f"the {two} again", relations=[related], session_id="s"),
        lambda: memory.remember("said twice", entities=[{"id": one, "aliases": [f"{one} X"]}]),
        lambda: memory.relate(one, two, "owns", weight=chance.random()),
        lambda: memory.relate(one, two, "owned", valid_until=LATER),
        lambda: memory.relate(one, chance.choice(ids), "wrote"),
        lambda: memory.update(chance.choice(ids), new_content=f"{two} now {chance.random()}"),
        lambda: memory.forget(chance.choice(ids), cascade=chance.random() < 0.5),
        lambda: memory.forget(one, target_kind="entity"),
        lambda: memory.forget(chance.choice(relations), target_kind="relation"),
        lambda: memory.merge_entities(one, two),
        lambda: memory.undo_merge(chance.choice(merges)),
    ]


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize(
    "seed", [5, *(pytest.param(more, marks=pytest.mark.long) for more in range(5))]
)
def test_links_that_heard_of_every_change_are_those_of_a_fresh_start(
    wordless: Memory, seed: int, past: bool
) -> None:
    chance = Random(seed)  # noqa: S311 - any order will do
    held(wordless, past=past)
    for step in range(120):
        try:
            chance.choice(_steps(wordless, chance))()
        except MneloError:
            continue  # what cannot be done changes nothing
        if step % 3 == 0:
            now = milliseconds([timestamps.now()])[0]
            for at in (now, FAR):
                assert told(held(wordless, past=past), at) == told(fresh(wordless, past=past), at)


def test_links_hear_of_what_another_process_changed(open_memory: Open, tmp_path: Path) -> None:
    here, there = (open_memory(path=tmp_path / "m.db") for _ in range(2))
    here.remember("Ann has a boat", entities=["Ann"])
    kept = held(here)
    there.relate("Ann", "Ben", "knows")
    there.remember("Ben sold it", entities=["Ben"])
    there.remember("nothing new", entities=[{"id": "Ann", "aliases": ["Annie"]}])
    assert held(here) is kept
    assert told(kept, FAR) == told(fresh(there), FAR)
    found = here.recall("Annie", strategy="entity_only")["hits"]
    assert "entity:Ann" in [hit["chunk_id"] for hit in found]


def test_who_is_far_behind_reads_everything_again(
    open_memory: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "KEPT_CHANGES", 3)
    here, there = (open_memory(path=tmp_path / "m.db") for _ in range(2))
    here.remember("Ann has a boat", entities=["Ann"])
    kept = held(here)
    assert here.recall("Ann", strategy="entity_only")["hits"]
    for name in ("Ben", "Carl", "Dora", "Emil", "Fritz"):
        there.relate("Ann", name, "knows")
    there.store.upkeep.trim_logs(1000, 1000)
    assert [row[0] for row in sqlite_of(there)._db.execute("SELECT count(*) FROM changes")] == [3]
    assert held(here) is not kept
    assert told(held(here), FAR) == told(fresh(there), FAR)
    found = here.recall("Fritz", strategy="entity_only")["hits"]
    assert "entity:Fritz" in [hit["chunk_id"] for hit in found]


def test_links_do_not_depend_on_the_order_in_which_sqlite_finds_rows(open_memory: Open) -> None:
    memory = open_memory()
    for place in range(1, 10):
        memory.remember(f"rim {place} is worn", entities=[f"rim {place}"])
        memory.relate("hub", f"rim {place}", "touches", weight=place / 10)
    expected = told(held(memory), FAR)
    with view_of(memory) as view:
        view.db.pragma("reverse_unordered_selects", True)
        assert told(snapshots.load_snapshot(view.db, False), FAR) == expected


def test_a_hub_gives_its_heaviest_relations_that_hold_and_nothing_that_ended() -> None:
    rows = [
        LinkedRelation(at, "hub", f"e{at}", (at * 7 % 1000) / 1000, NOW, NOW if at % 2 else None)
        for at in range(1, 1001)
    ]
    ids = ",".join(str(row.id) for row in rows)
    given = ",".join(str(row.weight) for row in rows)
    ends = ",".join(row.valid_until or "" for row in rows)
    relations = (ids, given, ",".join([NOW] * len(rows)), ends)
    targets = [(row.target, str(row.id)) for row in rows]
    of = Links([("hub", True)], [], RelationColumns([relations], [("hub", ids)], targets))
    _, others, weights = of.steps(np.array([of.node("hub")]), FAR, 5)
    want = sorted((row for row in rows if row.valid_until is None), key=lambda row: -row.weight)[:5]
    assert [of.entity_id(other) for other in others.tolist()] == [row.target for row in want]
    assert weights.tolist() == pytest.approx([row.weight for row in want])


def test_an_entity_gives_its_newest_chunks_that_are_wanted() -> None:
    of = Links([], [("hub", ",".join(map(str, range(1, 501))))], RelationColumns([], [], []))
    of.mention(700, ["hub"])
    of.mention(600, ["hub"])
    _, seqs = of.mentioning([of.node("hub")], 3, lambda seqs: seqs % 100 == 0)
    assert seqs.tolist() == [700, 600, 500]


def test_spellings_miss_no_name_however_many_are_added() -> None:
    of = Spellings(f"old {number}" for number in range(3000))
    of.add(f"new {number}" for number in range(3000))
    of.add(["last"])
    asked = ["old 5", "nothing", "last", "new 2999", "old 2999", "old 3000"]
    assert set(of.among(asked)) == {"old 5", "last", "new 2999", "old 2999"}
    assert Spellings(()).among(["any"]) == []


def test_the_beginnings_of_names_are_read_once_something_is_written(
    open_memory: Open, tmp_path: Path
) -> None:
    open_memory(path=tmp_path / "m.db").remember("Ann has a boat", entities=["Ann"])
    there = open_memory(path=tmp_path / "m.db")
    assert there.recall("Ann", strategy="entity_only")["hits"]
    with view_of(there) as view:
        assert not view.snapshots.spellings(view.db).has_starts
    stored = there.remember("then Ann sold it")["chunk_id"]
    with view_of(there) as view:
        assert "ann" in view.snapshots.spellings(view.db).starts
    found = there.recall("Ann", strategy="entity_only", top_k=5)["hits"]
    assert stored in [hit["chunk_id"] for hit in found]


def test_links_of_a_file_without_any_are_empty() -> None:
    of = Links([], [], RelationColumns([], [], []))
    assert [len(each) for each in of.steps(np.array([-1]), FAR, 5)] == [0, 0, 0]
    assert of.known("Ann") is None
