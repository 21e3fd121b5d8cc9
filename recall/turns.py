"""Rounds of conversations, remembered and found by cues, without any model.

A round is one memory of the same file that the server uses: what the person said, a line break,
and what was answered. Importing this loads next to nothing; the file is opened by TurnMemory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from config import Config
from core.errors import InvalidInput

if TYPE_CHECKING:
    from store.types import TurnRow

CLIENT = "turns"
SOURCE = "conversation"
SECONDS = 600.0  # that opening or a recall spends on memories whose cues were never read
MAX_CHARACTERS = 1000  # of the ids of a session and of a round


@dataclass(frozen=True, slots=True)
class Turn:
    """A round: what was said and answered; `score` and `cues` say how a recall came by it."""

    session_id: str
    round_id: str
    user_text: str
    assistant_text: str
    timestamp: str
    score: float = 0.0
    """About what part of the question's cues it has, weighed by rarity; neighbours add to it."""
    cues: tuple[str, ...] = ()
    """The cues that it shares with the question, or with what led to it."""
    caution: str = ""
    """What is to stand beside a round that gives orders to the agent which reads it."""


class TurnMemory:
    """Remembers rounds of conversations in `memory.db` inside a folder, and finds them by cues.

    `userdict` names a file of terms, one a line, that stay whole. All else is as config.toml
    and the environment say. Safe for use by many threads; a server may have the same file open.
    Raises MneloError, whose text is fit to show a person.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, TurnMemory(folder) as memory:
    ...     memory.remember("My dog Lucky is a golden retriever", "Cute!", session_id="chat-42")
    ...     [(turn.round_id, turn.cues) for turn in memory.recall("what breed is my dog")]
    '1'
    [('1', ('dog',))]
    """

    def __init__(
        self,
        root: str | PathLike[str] | None = None,
        userdict: str | PathLike[str] | None = None,
        *,
        db: str | PathLike[str] | None = None,
        config: Config | None = None,
    ) -> None:
        """`db` names another file than the one in `root`; without both it is the configured one."""
        from index import cue_index
        from store.opening import open_store
        from store.types import CueSettings
        from text import cues as cues_module
        from text.guard import Guard

        given = config or Config.load()
        if userdict is not None:
            given = replace(given, cues_userdict=Path(userdict).expanduser().absolute())
        inside = None if root is None else Path(root).expanduser() / "memory.db"
        self.path = Path(db or inside or given.database_path).expanduser().absolute()
        self._config, self._guard = given, Guard(given.guard_mode, given.guard_instructions)
        self._edges = cue_index.Edges(given.cues_associative, given.cues_discourse)
        how = CueSettings(cues_module.extractor(given), given.cues_pause_minutes)
        self.store = open_store(given, self.path, lanes=(), cues=how)

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> "TurnMemory":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- writing --

    def remember(
        self,
        user_text: str,
        assistant_text: str = "",
        *,
        session_id: str,
        round_id: str | int | None = None,
        timestamp: str = "",
    ) -> str:
        """Store a round, or the next version of it; its id, counted on where none is given.

        `timestamp` is when it was, now if not given; the same round again keeps the time it had.
        """
        from core.types import NewChunk

        number = "" if round_id is None else _id("round_id", round_id)
        turn = self.checked(Turn(session_id, number, user_text, assistant_text, timestamp))
        asked, answered = turn.user_text, turn.assistant_text
        content = f"{asked}\n{answered}" if answered else asked
        when = turn.timestamp or None
        chunk = NewChunk(content, SOURCE, turn.session_id, importance=0.5, timestamp=when)
        return self.store.turns.put(chunk, number or None, len(asked), CLIENT)

    def checked(self, turn: Turn) -> Turn:
        """A round as it would be stored, with its time as that is written; where it has none, none.

        InvalidInput where it would be refused.
        """
        from access.validation import Moment
        from core.timestamps import zone

        texts = {"user_text": turn.user_text, "assistant_text": turn.assistant_text}
        session = _id("session_id", turn.session_id)
        for name, text in texts.items():
            _check_text(name, text, self._config.limits_content_bytes)
        safe = self._guard.check(texts).arguments
        if not "".join(safe.values()).strip():
            raise InvalidInput("input.blank", name="user_text")
        moment = Moment(zone(self._config.timezone))
        when = moment.read("timestamp", turn.timestamp) if turn.timestamp else ""
        return replace(turn, session_id=session, timestamp=when, **safe)

    def delete(self, session_id: str) -> int:
        """Forget all rounds of a session; how many. Their rows are closed, the history stays."""
        session = _id("session_id", session_id)
        return self.forget([(session, turn.round_id) for turn in self.turns(session)])

    def forget(self, rounds: Sequence[tuple[str, str]]) -> int:
        """Forget some rounds, each by the ids of its session and of itself; how many."""
        read = [(_id("session_id", each), _id("round_id", number)) for each, number in rounds]
        return self.store.turns.close(read, CLIENT)

    # -- reading --

    def recall(self, query: str, *, top_k: int = 5) -> list[Turn]:
        """The rounds whose cues, or whose neighbours' cues, a question shares, best first.

        None where it has no cue that tells anything apart.
        """
        from access.validation import Integer

        _check_text("query", query, self._config.limits_query_bytes)
        top_k = Integer(1, self._config.limits_top_k).read("top_k", top_k)
        self.store.cues.index(SECONDS)
        most = top_k
        with self.store.view() as view:
            while True:
                found = view.cues.search(query, most, self._edges)
                rows = view.turns.at(found.seqs)
                if len(rows) >= top_k or len(found.seqs) < most:
                    break
                most *= 4  # other memories are in the same file
            scores = dict(zip(found.seqs, found.scores, strict=True))
            shown = [(row, found.explain(row.seq)) for row in rows[:top_k]]
            names = view.cues.names({cue for _, way in shown for cue in way.cues})
        turns = [
            _turn(row, scores[row.seq], tuple(names[cue] for cue in way.cues if cue in names))
            for row, way in shown
        ]
        said = [self._guard.caution(turn.user_text, turn.assistant_text) for turn in turns]
        return [replace(turn, **each) for turn, each in zip(turns, said, strict=True)]

    def sessions(self) -> list[str]:
        """The ids of all sessions that have rounds."""
        with self.store.view() as view:
            return view.turns.sessions()

    def turns(self, session_id: str) -> list[Turn]:
        """The rounds of a session in the order in which they were."""
        with self.store.view() as view:
            return [_turn(row) for row in view.turns.of_session(_id("session_id", session_id))]

    def export(self, session_id: str) -> list[dict[str, str]]:
        """The rounds of a session as plain objects, as the files of turns_tree.py hold them."""
        return [as_object(turn) for turn in self.turns(session_id)]

    def versions(self, session_id: str, round_id: str) -> list[Turn]:
        """Every version that a round ever had."""
        session, number = _id("session_id", session_id), _id("round_id", round_id)
        with self.store.view() as view:
            return [_turn(row) for row in view.turns.versions(session, number)]


def as_object(turn: Turn) -> dict[str, str]:
    """What a round is by itself, without how it was found."""
    found = ("score", "cues", "caution")
    return {name: value for name, value in asdict(turn).items() if name not in found}


def of_object(data: Mapping[str, Any]) -> Turn:
    """A round from such an object; InvalidInput where a part is missing or is no text."""
    names = ("session_id", "round_id", "user_text", "assistant_text", "timestamp")
    for name in names:
        if not isinstance(data.get(name), str):
            raise InvalidInput("turns.part", name=name)
    return Turn(**{name: data[name] for name in names})


def _turn(row: "TurnRow", score: float = 0.0, cues: tuple[str, ...] = ()) -> Turn:
    asked, answered = row.content[: row.asked], row.content[row.asked + 1 :]
    return Turn(row.session_id, row.round_id, asked, answered, row.timestamp, score, cues)


def _id(name: str, value: str | int) -> str:
    number = isinstance(value, int) and abs(value) < 1 << 63
    text: Any = str(value) if number else value
    if not isinstance(text, str):
        raise InvalidInput("turns.text", name=name)
    if not text.strip():
        raise InvalidInput("input.blank", name=name)
    if len(text) > MAX_CHARACTERS:
        raise InvalidInput("input.chars", name=name, size=len(text), limit=MAX_CHARACTERS)
    _check_text(name, text, 4 * MAX_CHARACTERS)
    return text


def _check_text(name: str, text: str, most: int) -> None:
    try:
        size = len(text.encode())
    except (AttributeError, UnicodeEncodeError):
        raise InvalidInput("turns.text", name=name) from None
    if size > most:
        raise InvalidInput("input.long", name=name, size=size, limit=most)
