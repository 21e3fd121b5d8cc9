"""The vectors of memories and questions: made at once, or in the background if that takes long."""

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import embedder
from config import Config
from core import timestamps
from core.errors import MneloError, ModelError
from core.types import ChunkRow, Model, NewChunk, Scope, Vectors
from embedder import Embedder
from embedding.model import CurrentModel, FileModel
from embedding.passages import passage
from mnelo_locale import message
from store import Store

log = logging.getLogger("mnelo")

INLINE_CHARACTERS = 4000  # a longer text gets its vectors after the answer
BATCH_WAITING = 64  # memories that get their vectors at a time, or before a question is answered


class QuestionVector(NamedTuple):
    """The vector of a question, and the model that made it."""

    vector: Vectors
    model: Model


class Embedding:
    """Gives memories and questions their vectors. Safe for use by many threads.

    A memory that gets none when it is stored waits for them: it is too long, or there is no model
    yet, or the model fails over it. A thread of its own embeds what waits; it starts when somebody
    first asks for the model.
    """

    def __init__(
        self,
        config: Config,
        store: Store,
        load_model: Callable[[str | None], Embedder] | None = None,
    ) -> None:
        """`load_model` replaces the choice of a model: it is given the name in the file, if any."""
        self._config, self._store = config, store
        self._zone = timestamps.zone(config.timezone)
        self._closing, self._work = threading.Event(), threading.Event()
        load = load_model or (lambda recorded: embedder.load(config, recorded))
        self._current = CurrentModel(store, load, self._work.set)
        self._failed: set[tuple[str, int]] = set()  # by model and seq: what it failed over
        self._fill_lock, self._start_lock = threading.Lock(), threading.Lock()
        self._filler = threading.Thread(target=self._fill_all, name="mnelo-vectors", daemon=True)

    def close(self) -> None:
        """End the thread after the batch at hand."""
        self._closing.set()
        self._work.set()
        if self._filler.ident is not None:
            self._filler.join(timeout=10)

    # -- the model --

    def model(self, seconds: float | None) -> FileModel | None:
        """The file's model if it is there within that time; None waits until that is known."""
        with self._start_lock:
            if self._filler.ident is None:
                self._filler.start()
        return self._current.wait(seconds)

    def follow(self) -> None:
        """Load another model where the file has one by now."""
        self._current.follow()

    def why_off(self) -> str:
        """Why no vectors are to be had, for a person; empty where they are."""
        if self._current.state == "loading":
            return message("notice.loading")
        if self.is_off():
            return message("notice.vectors_off", reason=self._current.reason)
        return ""

    def why_none(self) -> str:
        """The same where there are none just now: the file's model may have changed meanwhile."""
        return self.why_off() or message("notice.loading")

    def is_off(self) -> bool:
        """Whether there is no model, and none is being loaded."""
        return self._current.state == "off"

    def report(self, recorded: Model | None) -> dict[str, Any]:
        """The state of the model, as memory_stats shows it; `recorded` is the file's."""
        state: dict[str, Any] = {"state": self._current.state}
        if recorded:
            state |= {"model": recorded.name, "dim": recorded.dim}
        return state | ({"reason": self._current.reason} if self.is_off() else {})

    # -- vectors that somebody waits for --

    def with_vectors(
        self, model: FileModel | None, chunks: Sequence[NewChunk], now: str
    ) -> list[NewChunk]:
        """New memories with their vectors, where they are short and there is a model."""
        if model is None:
            return list(chunks)
        texts = [(each.content, each.source, each.timestamp or now) for each in chunks]
        vectors, version = self._of_short(model, texts), model.known.version
        return [
            replace(chunk, vectors=made, made_by=version)
            for chunk, made in zip(chunks, vectors, strict=True)
        ]

    def of_next_version(self, chunk_id: str, content: str | None) -> tuple[Vectors | None, str]:
        """The vectors of a text that is to replace a memory's, and the version of their model.

        None where there is no new text, or where it has to wait for them.
        """
        if content is None or (model := self.model(0)) is None:
            return None, ""
        with self._store.view() as view:
            current = view.chunks([view.latest_version(chunk_id)], Scope())
        if not current:
            return None, ""
        texts = [(content, row.source, row.timestamp) for row in current]
        return self._of_short(model, texts)[0], model.known.version

    def _of_short(
        self, model: FileModel, texts: Sequence[tuple[str, str, str]]
    ) -> list[Vectors | None]:
        """The vectors of texts, each with its source and time; None for a long one."""
        short = [text for text in texts if len(text[0]) <= INLINE_CHARACTERS]
        passages = [passage(*text, self._zone) for text in short]
        made = iter(self._embed(model, passages))
        return [next(made) if len(text[0]) <= INLINE_CHARACTERS else None for text in texts]

    def _embed(self, model: Embedder, passages: Sequence[str]) -> list[Vectors | None]:
        return embedder.embed(model, passages, self._closing.is_set)

    def of_question(self, text: str) -> tuple[QuestionVector | None, str]:
        """The vector of a question; or None and the reason, for a person.

        Memories that wait for their vectors get them first, as time allows.
        """
        deadline = time.monotonic() + self._config.embedder_wait_seconds
        model = self.model(self._config.embedder_wait_seconds)
        if model is None:
            return None, self.why_none()
        # More would not be done in time.
        if not self._store.read_only and 0 < self._waiting_count() <= BATCH_WAITING:
            self._fill(model, deadline, longest=INLINE_CHARACTERS)
        try:
            return QuestionVector(model.query(text), model.known), ""
        except Exception:  # whatever a model's library raises
            log.exception("the model failed over a question")
            return None, message("notice.lane_failed", lane="vector")

    # -- memories that wait --

    def wake(self) -> None:
        """Tell the background that memories wait for their vectors."""
        self._work.set()

    def fill(self, progress: Callable[[int], object] = lambda count: None) -> int:
        """Give every waiting memory its vectors now; how many got them.

        `progress` is told after each batch how many have. Raises ModelError without a model.
        """
        waiting = self._waiting_count()
        model = self.model(None)
        if model is None:
            raise ModelError("notice.vectors_off", reason=self._current.reason)
        while self._fill(model):
            progress(waiting - self._waiting_count())
        return waiting - self._waiting_count()

    def _waiting_count(self) -> int:
        with self._store.view() as view:
            return view.pending_count()

    def _fill_all(self) -> None:
        """In the background: give memories their vectors whenever some wait."""
        while not self._store.read_only and not self._closing.is_set():
            filled = 0
            try:
                model = self.model(0.5)
                filled = self._fill(model) if model else 0
                loading = self._current.state == "loading"
                idle = not filled and not loading and not self._current.follow()
            except MneloError as error:
                log.warning("memories still wait for vectors: %s", error)
                idle = True
            if idle:
                self._work.wait()
                self._work.clear()

    def _fill(
        self, model: FileModel, deadline: float = math.inf, *, longest: int | None = None
    ) -> int:
        """Embed the next waiting memories before the deadline; with how many it is done.

        One that the model fails over is tried only once, so it never blocks the others.
        """
        left = -1 if deadline == math.inf else max(0.0, deadline - time.monotonic())
        if not self._waiting_count() or not self._fill_lock.acquire(timeout=left):
            return 0
        try:
            due = self._due(model.known.version, longest)
            done = 0
            for start in range(0, len(due), embedder.BATCH_TEXTS):
                if time.monotonic() > deadline or self._closing.is_set():
                    break
                done += self._fill_some(model, due[start : start + embedder.BATCH_TEXTS])
            return done
        finally:
            self._fill_lock.release()

    def _due(self, version: str, longest: int | None) -> list[ChunkRow]:
        """The next memories that wait, except those that the model failed over."""
        with self._store.view() as view:
            waiting = view.pending(BATCH_WAITING + len(self._failed))
        due = [row for row in waiting if (version, row.seq) not in self._failed]
        short = [row for row in due if longest is None or len(row.content) <= longest]
        return short[:BATCH_WAITING]

    def _fill_some(self, model: FileModel, rows: Sequence[ChunkRow]) -> int:
        """Embed and store some; with how many it is done."""
        version = model.known.version
        passages = [passage(row.content, row.source, row.timestamp, self._zone) for row in rows]
        made = list(zip(rows, self._embed(model, passages), strict=True))
        if self._closing.is_set():  # texts have no vectors then, though the model did not fail
            return 0
        self._failed.update((version, row.seq) for row, vectors in made if vectors is None)
        done = [(row.seq, vectors) for row, vectors in made if vectors is not None]
        return self._store.put_vectors(done, version) + len(rows) - len(done)
