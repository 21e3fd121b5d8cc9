"""The same question has the same answer in every process that has the file open."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from config import ROOT
from core.errors import MneloError
from hash_embedder import HashEmbedder
from memories import Open
from memory import Memory

NAMES = ["Ann", "Ben", "项目甲", "sh600089", "Blue Heron", "kiln", "C#", "Dora", "Emil", "Oslo"]
WORDS = [
    "kettle",
    "attic",
    "brother",
    "march",
    "garage",
    "gate",
    "会议",
    "北门",
    "水壶",
    "red",
    "blue",
]
DAYS = ["2026-07-01", "2026-07-02T10:00:00Z", "2026-07-02T10:10:00Z", "2026-09-09", None]
LANES = ["vector", "graph", "meta", "entity", "cue"]
FILTERS: list[dict[str, object]] = [{}, {}, {}, {"source": "x"}, {"min_importance": 0.5}]
STRATEGIES = ["rrf"] * 4 + [f"{lane}_only" for lane in LANES]


def _change(memory: Memory, chance: Random, ids: list[str]) -> None:
    """Do one thing that may be done, of some kind."""
    one, two = chance.sample(NAMES, 2)
    said, old = " ".join(chance.choices(WORDS, k=4)), chance.choice(ids or [""])
    about: dict[str, Any] = {
        "entities": chance.sample(NAMES, chance.choice([0, 1, 2])),
        "session_id": chance.choice(["s", "t", "default"]),
        "timestamp": chance.choice(DAYS),
        "source": chance.choice(["x", "Ann", "manual"]),
        "importance": chance.choice([0.1, 0.5, 0.9]),
    }
    alias = [{"id": one, "aliases": [chance.choice(WORDS)]}]
    steps: list[Callable[[], Any]] = [
        *[lambda: ids.append(memory.remember(f"{one} {said} {two}", **about)["chunk_id"])] * 4,
        lambda: ids.append(memory.remember(said, entities=alias)["chunk_id"]),
        *[lambda: memory.relate(one, two, "knows", weight=chance.choice([0.5, 1.0]))] * 3,
        lambda: memory.relate(one, old, "wrote"),
        *[lambda: memory.update(old, new_content=f"{two} {said}")] * 2,
        lambda: memory.update(old, new_importance=chance.random()),
        lambda: memory.forget(old, cascade=chance.random() < 0.5),
        lambda: memory.merge_entities(one, two) if chance.random() < 0.3 else None,
        lambda: memory.undo(chance.randrange(1, 2 * len(ids) + 2)),
    ]
    with suppress(MneloError):  # what cannot be done changes nothing
        chance.choice(steps)()


def _question(chance: Random) -> dict[str, Any]:
    name, word = chance.choice(NAMES), chance.choice(WORDS)
    asked = [name, f"{name} {word}", f"zebra {word}", f"when did {name} see the {word} 2026-07-02?"]
    return {
        "query": chance.choice(asked),
        "strategy": chance.choice(STRATEGIES),
        "top_k": chance.choice([1, 3, 10]),
        "graph_hops": chance.choice([1, 2, 3]),
        "filters": chance.choice(FILTERS),
        "explain": True,
        "max_tokens": 0,
    }


@pytest.mark.parametrize(
    "seed", [3, *(pytest.param(more, marks=pytest.mark.long) for more in range(4, 14))]
)
def test_whoever_met_the_rows_in_another_order_answers_the_same(
    open_memory: Open, tmp_path: Path, seed: int
) -> None:
    chance, ids = Random(seed), list[str]()  # noqa: S311 - any order will do
    chosen: dict[str, Any] = {"model": HashEmbedder(), "recall_lanes": LANES}
    one, two = (open_memory(path=tmp_path / "m.db", **chosen) for _ in range(2))
    for step in range(1, 71):
        _change(chance.choice([one, two]), chance, ids)
        if chance.random() < 0.3:  # only who asks learns what is new
            chance.choice([one, two]).recall(**_question(chance))
        if step % 35 == 0:
            fresh = open_memory(path=tmp_path / "m.db", **chosen)
            for _ in range(15):
                asked = _question(chance)
                answer = fresh.recall(**asked)
                assert one.recall(**asked) == answer, asked
                assert two.recall(**asked) == answer, asked


# --- Processes whose sets have another order -------------------------------------------

ASK = """
import json, sys
from pathlib import Path
from config import Config
from hash_embedder import HashEmbedder
from memory import Memory
path, questions = Path(sys.argv[1]), json.loads(sys.argv[2])
with Memory(path, config=Config.load({}), load_model=lambda recorded: HashEmbedder()) as memory:
    memory.wait_for_model(10)
    print(json.dumps([memory.recall(each, explain=True) for each in questions]))
"""


def _answers(path: Path, questions: list[str], seed: int) -> list[dict[str, Any]]:
    """What a process says whose texts have hashes of their own."""
    known = os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "support")))
    done = subprocess.run(
        [sys.executable, "-c", ASK, path, json.dumps(questions)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": known, "PYTHONHASHSEED": str(seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def test_what_is_probably_unknown_is_so_in_every_process(memory: Memory) -> None:
    # Two names of one length: which of them counts was left to the order of a set.
    memory.remember(
        "we fox it barked", entities=[{"id": "red fox den", "aliases": ["sunflowersx"]}]
    )
    questions = ["sunflowersx red fox den", "Ann, sunflowersx, red fox den"]
    answers = [_answers(memory.path, questions, seed) for seed in range(1, 5)]
    assert [each for each in answers if each != answers[0]] == []
    assert [hit["explain"]["entity"]["because"] for hit in answers[0][0]["hits"]]
