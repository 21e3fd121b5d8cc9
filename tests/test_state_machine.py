"""Memory against a plain model: whatever is done, by whichever process, both say the same."""

import shutil
import time
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from core import timestamps
from piped import REFUSED, Elsewhere, Here
from serving import FORKS

pytestmark = pytest.mark.skipif(not FORKS, reason="needs forked processes")

COMMON = "kettle"
"""Is in every text; all other words are of one version alone."""
TAGS = ("red", "blue", "绿色")
NAMES = ("Ann", "Otto", "北门", "C#")
WEIGHTS = (0.25, 0.5, 1.0)

# --- The model -------------------------------------------------------------------------

T = TypeVar("T")
Edge = tuple[str, str]


@dataclass
class Note:
    """A memory: the words of its versions, the last of which may be found, and their ids."""

    words: list[str]
    ids: list[str]
    tags: set[str]
    live: bool = True


@dataclass
class Model:
    """What a memory is said to hold, in as few words as possible."""

    notes: list[Note] = field(default_factory=list)
    entities: dict[str, bool] = field(default_factory=dict)  # whether it is live
    edges: dict[Edge, tuple[int, float]] = field(default_factory=dict)  # those that hold

    def found(self) -> set[str]:
        """The words that a recall finds."""
        return {note.words[-1] for note in self.notes if note.live}

    def tagged(self, tag: str) -> set[str]:
        return {note.words[-1] for note in self.notes if note.live and tag in note.tags}

    def name(self, *entities: str) -> None:
        self.entities |= dict.fromkeys(entities, True)


@dataclass(frozen=True)
class Undoable:
    """An action's record, the model before it, and how many moments had been noted then."""

    audit_id: int
    before: Model
    moments: int


# --- The machine -----------------------------------------------------------------------

sides = st.integers(0, 1)
places = st.integers(0, 1 << 16)
"""Which of the memories, versions, relations: counted round."""


class Machine(RuleBasedStateMachine):
    """Two processes on one file; every rule is done by one of them and judged by the model."""

    def __init__(self, folder: Path, other: Elsewhere) -> None:
        super().__init__()
        self._folder, self._sides = folder, (Here(), other)
        self._new_words = (f"w{number}q" for number in count())
        self._model = Model()
        self._said: set[str] = set()
        self._moments: list[tuple[str, set[str]]] = []
        self._undoable: list[Undoable] = []

    @initialize()
    def begin(self) -> None:
        self._folder.mkdir()
        for side in self._sides:
            side.open(self._folder / "memory.db")

    def teardown(self) -> None:
        try:
            self.both_say_the_same_of_everything()
        finally:
            for side in self._sides:
                side.close()
            shutil.rmtree(self._folder)

    # -- writing --

    @rule(side=sides, tags=st.sets(st.sampled_from(TAGS)), names=st.sets(st.sampled_from(NAMES)))
    def remember(self, side: int, tags: set[str], names: set[str]) -> None:
        self._remember(side, self._word(), tags, names)

    @precondition(lambda self: self._model.notes)
    @rule(side=sides, place=places, tags=st.sets(st.sampled_from(TAGS)))
    def remember_the_same_again(self, side: int, place: int, tags: set[str]) -> None:
        """Of a live memory it adds the tags; what was forgotten is a new memory."""
        self._remember(side, self._note(place).words[-1], tags, set())

    def _remember(self, side: int, word: str, tags: set[str], names: set[str]) -> None:
        given = {"tags": sorted(tags), "entities": sorted(names)}
        done = self._sides[side]("remember", _text(word), **given)
        same = next((n for n in self._model.notes if n.live and n.words[-1] == word), None)
        if same:
            assert (done["status"], done["chunk_id"]) == ("exists", same.ids[-1])
            same.tags |= tags
        else:
            assert done["status"] == "stored"
            self._model.notes.append(Note([word], [done["chunk_id"]], tags))
        self._model.name(*names)
        self._undoable.clear()  # it may build on any of them

    @precondition(lambda self: self._model.notes)
    @rule(side=sides, place=places, version=places)
    def update(self, side: int, place: int, version: int) -> None:
        """By the id of any version."""
        note, word = self._note(place), self._word()
        before = self._before()
        done = self._sides[side]("update", _any(note.ids, version), new_content=_text(word))
        if not note.live:
            assert done == {REFUSED: "missing.forgotten"}
            return
        assert (done["status"], done["supersedes"]) == ("updated", note.ids[-1])
        note.ids.append(done["new_chunk_id"])
        note.words.append(word)
        self._can_undo(side, before)

    @precondition(lambda self: self._model.notes)
    @rule(side=sides, place=places, version=places)
    def forget(self, side: int, place: int, version: int) -> None:
        note, before = self._note(place), self._before()
        done = self._sides[side]("forget", _any(note.ids, version))
        assert done == {"forgotten": int(note.live), "edges_invalidated": 0}
        if note.live:
            note.live = False
            self._can_undo(side, before)

    @rule(side=sides, ends=st.permutations(NAMES), weight=st.sampled_from(WEIGHTS))
    def relate(self, side: int, ends: list[str], weight: float) -> None:
        edge, before = (ends[0], ends[1]), self._before()
        done = self._sides[side]("relate", *edge, "knows", weight=weight)
        known = self._model.edges.get(edge)
        same = known == (done["relation_id"], weight)
        assert done["status"] == ("exists" if same else "updated" if known else "stored")
        self._model.edges[edge] = (done["relation_id"], weight)
        self._model.name(*edge)
        if not same:
            self._can_undo(side, before)

    @precondition(lambda self: self._model.edges)
    @rule(side=sides, place=places)
    def forget_relation(self, side: int, place: int) -> None:
        edge = _any(sorted(self._model.edges), place)
        before = self._before()
        relation_id, _ = self._model.edges.pop(edge)
        done = self._sides[side]("forget", relation_id, target_kind="relation")
        assert done["forgotten"] == 1
        self._can_undo(side, before)
        again = self._sides[side]("forget", relation_id, target_kind="relation")
        assert again["forgotten"] == 0

    @rule(side=sides, name=st.sampled_from(NAMES))
    def forget_entity(self, side: int, name: str) -> None:
        before = self._before()
        done = self._sides[side]("forget", name, target_kind="entity")
        if name not in self._model.entities:
            assert done == {REFUSED: "missing.entity"}
            return
        gone = [edge for edge in self._model.edges if name in edge]
        live = self._model.entities[name]
        assert done == {"forgotten": int(live), "edges_invalidated": len(gone)}
        for edge in gone:
            del self._model.edges[edge]
        self._model.entities[name] = False
        if live:
            self._can_undo(side, before)

    @precondition(lambda self: self._undoable)
    @rule(side=sides)
    def undo(self, side: int) -> None:
        """What was done last; a moment that was noted since is not what it was any more."""
        last = self._undoable.pop()
        done = self._sides[side]("undo", last.audit_id)
        assert done.get("undone") == last.audit_id, done
        self._model = deepcopy(last.before)
        del self._moments[last.moments :]
        assert self._sides[side]("undo", last.audit_id) == {REFUSED: "undo.done"}

    # -- looking --

    @precondition(lambda self: self._said)
    @rule(side=sides, place=places)
    def a_word_is_found_if_and_only_if_it_is_live(self, side: int, place: int) -> None:
        word = _any(sorted(self._said), place)
        assert self._finds(side, word) == (word in self._model.found())

    @rule()
    def note_the_moment(self) -> None:
        time.sleep(0.002)  # times are stored in milliseconds
        self._moments.append((timestamps.now(), self._model.found()))
        time.sleep(0.002)

    @precondition(lambda self: self._moments and self._said)
    @rule(side=sides, place=places, moment=places)
    def a_word_is_found_in_the_past_if_and_only_if_it_was_live(
        self, side: int, place: int, moment: int
    ) -> None:
        at, live = _any(self._moments, moment)
        word = _any(sorted(self._said), place)
        assert self._finds(side, word, asof=at) == (word in live)

    @rule(side=sides, tag=st.sampled_from(TAGS))
    def a_tag_filters(self, side: int, tag: str) -> None:
        assert self._words(side, filters={"tag": tag}) == self._model.tagged(tag)

    @rule(side=sides)
    def open_again(self, side: int) -> None:
        self._sides[side].open(self._folder / "memory.db")

    @rule()
    def both_say_the_same_of_everything(self) -> None:
        for side in (0, 1):
            assert self._words(side) == self._model.found()
            stats = self._sides[side]("stats")
            live = sum(note.live for note in self._model.notes)
            assert stats["chunks"]["active"] == live
            assert stats["chunks"]["total"] == sum(len(note.ids) for note in self._model.notes)
            assert stats["entities"]["active"] == sum(self._model.entities.values())
            assert stats["relations"]["active"] == len(self._model.edges)
        assert not any(self._sides[0]("check").values())

    # -- inside --

    def _word(self) -> str:
        word = next(self._new_words)
        self._said.add(word)
        return word

    def _note(self, place: int) -> Note:
        return _any(self._model.notes, place)

    def _before(self) -> tuple[Model, int]:
        return deepcopy(self._model), len(self._moments)

    def _can_undo(self, side: int, before: tuple[Model, int]) -> None:
        (record,) = self._sides[side]("history", 1)
        self._undoable.append(Undoable(record["audit_id"], *before))

    def _finds(self, side: int, word: str, **asked: Any) -> bool:
        return word in self._words(side, word, **asked)

    def _words(self, side: int, query: str = COMMON, **asked: Any) -> set[str]:
        """The words of all the texts that are found."""
        found = self._sides[side]("recall", query, top_k=100, max_tokens=0, **asked)["hits"]
        texts = [hit["content"] for hit in found if hit["chunk_id"].startswith("chunk_")]
        assert len(texts) == len(set(texts))
        return {text.split()[-1] for text in texts}


def _text(word: str) -> str:
    return f"the {COMMON} says {word}"


def _any(several: list[T], place: int) -> T:
    return several[place % len(several)]


# --- Runs ------------------------------------------------------------------------------


@pytest.fixture
def other() -> Iterator[Elsewhere]:
    other = Elsewhere()
    yield other
    other.end()


def run(folder: Path, other: Elsewhere, how: settings) -> None:
    run_state_machine_as_test(lambda: Machine(folder / "machine", other), settings=how)  # type: ignore[no-untyped-call]


def test_two_processes_and_a_plain_model_agree_whatever_is_done(
    tmp_path: Path, other: Elsewhere
) -> None:
    # As it was found: making it shorter takes minutes, which is what --long is for.
    how = settings(max_examples=12, stateful_step_count=40, phases=(Phase.generate,))
    run(tmp_path, other, how)


@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
def test_two_processes_and_a_plain_model_agree_for_hours(tmp_path: Path, other: Elsewhere) -> None:
    how = settings(max_examples=10_000, stateful_step_count=60, derandomize=False)
    run(tmp_path, other, how)
