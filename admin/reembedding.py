"""Another embedding model over the same memories, while others read and write the file.

Its vectors are made beside those in use, 16 texts a transaction: of every version of every memory,
for questions about the past, and of what is written meanwhile. Then they take their place in one
step. Until then the old ones answer. At whatever moment a run ends, the file is sound, and the
next run goes on: a text that has a window in the new table is done.

A model is the same by name, dimension and its cosine of unrelated texts, so that new files behind
an old name are noticed.
"""

import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from filelock import Timeout

import embedder
from config import Config
from core import timestamps
from core.errors import ModelError, StoreBusy, StoreError
from core.types import Model, Vectors
from embedder import Embedder
from embedding.passages import passage
from memory import Memory
from store import Inspection, NextVectors, Store
from store.opening import inspect, open_store
from store.types import WaitingText

BATCH_TEXTS = 16  # texts embedded between two writes: what an end in the middle may cost
SAMPLE = 8  # texts by which time and space are estimated
MIN_SPARE = 32 << 20  # bytes of the disk, for what the store and others write meanwhile
ALIKE = 1e-3  # cosines between which a model of one name is the same on any machine


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done to a file, from the model that it has to another one."""

    model: Embedder
    measured: Model
    old: Model | None
    begun: bool  # whether an earlier run had begun with the same model
    texts: int  # how many there are
    left: int  # how many of them are left
    seconds: float  # about how long it will take
    needed: int  # about how many bytes more of the disk it needs
    free: int

    @property
    def done(self) -> bool:
        """Whether the file's vectors are this model's already."""
        return self.old is not None and not self.begun and _same(self.old, self.measured)


def choose(config: Config, *, named: bool) -> Embedder:
    """Load the model that a file is to have: the one that the settings name.

    Where they leave the choice open, and nobody has `named` one, it is the model of a run that
    was ended, else the file's own. Raises ModelError where it cannot be loaded.
    """
    with closing(_look(config)) as file, file.view() as view:
        own = file.next_vectors.model() or view.model()
    general = not named and config.embedder_model in ("auto", "offline")
    try:
        return embedder.load(config, own.name if own and general else None)
    except ModelError as error:
        raise ModelError("reembed.no_model", reason=error) from None


def plan(config: Config, model: Embedder) -> Plan:
    """What giving the configured file this model's vectors will take; changes nothing."""
    measured = embedder.measured(model)
    with closing(_look(config)) as file:
        following = file.next_vectors
        before = following.model()
        begun = before is not None and _same(before, measured)
        texts, _ = following.left(anew=True)
        left, characters = following.left(anew=not begun)
        seconds, windows = _sampled(config, model, following.sample(SAMPLE))
        with file.view() as view:
            old = view.model()
        growth = following.growth_bytes(math.ceil(left * windows), model.dim)
    needed = growth + MIN_SPARE
    free = shutil.disk_usage(config.database_path.parent).free
    seconds *= characters
    return Plan(model, measured, old, begun, texts, left, seconds, needed, free)


def refuse_full(config: Config, planned: Plan) -> None:
    """Raise StoreError where the disk has no room for what is planned."""
    if not planned.done and planned.free < planned.needed:
        mib = {"needed": planned.needed / (1 << 20), "free": planned.free / (1 << 20)}
        raise StoreError("reembed.space", path=config.database_path, **mib)


def run(config: Config, planned: Plan, progress: Callable[[int], object] = lambda count: 0) -> int:
    """Give the configured file the model's vectors; how many memories still wait for theirs.

    `progress` gets the number of texts of each batch. Raises StoreError or ModelError.
    """
    refuse_full(config, planned)
    with closing(open_store(config)) as store, _alone(store):
        _replace(config, store, planned, progress)
        # What came between the last batch and the switch, or what failed, waits as usual.
        with Memory(config=config, load_model=lambda recorded: planned.model) as memory:
            memory.fill_pending()
            waiting: int = memory.stats()["pending"]
    return waiting


def _replace(
    config: Config, store: Store, planned: Plan, progress: Callable[[int], object]
) -> None:
    following, measured = store.next_vectors, planned.measured
    begun = following.model()
    with store.view() as view:
        old = view.model()
    if begun is not None and _same(begun, measured):
        following.drop(next_too=False)
    elif old is not None and _same(old, measured):
        following.drop()
        return
    else:
        following.begin(measured)
    failed = _make(config, following, planned.model, progress)
    if 2 * failed > following.left(anew=True)[0]:
        raise ModelError("reembed.failing", model=measured.name, count=failed)
    following.update_live()
    following.switch(measured)
    following.drop()


def _make(
    config: Config, following: NextVectors, model: Embedder, progress: Callable[[int], object]
) -> int:
    """Make the vectors of all texts, also of those that come meanwhile; how many failed."""
    after = failed = 0
    while texts := following.texts(after, BATCH_TEXTS):
        made = [
            (text, vectors)
            for text, vectors in zip(texts, _embed(config, model, texts), strict=True)
            if vectors is not None
        ]
        following.put(made)
        failed += len(texts) - len(made)
        after = texts[-1].seq
        progress(len(texts))
    return failed


def _embed(config: Config, model: Embedder, texts: Sequence[WaitingText]) -> list[Vectors | None]:
    zone = timestamps.zone(config.timezone)
    passages = [passage(each.content, each.source, each.timestamp, zone) for each in texts]
    return embedder.embed(model, passages)


def _sampled(config: Config, model: Embedder, texts: Sequence[WaitingText]) -> tuple[float, float]:
    """Seconds for a character, and windows for a text, of some texts."""
    started = time.perf_counter()
    windows = sum(len(each) for each in _embed(config, model, texts) if each is not None)
    seconds = time.perf_counter() - started
    characters = sum(len(each.content) for each in texts)
    return seconds / max(characters, 1), max(1.0, windows / max(len(texts), 1))


def _same(one: Model, other: Model) -> bool:
    """Whether vectors of two models may be compared: a name alone may have new files."""
    alike = math.isclose(one.unrelated, other.unrelated, abs_tol=ALIKE)
    return (one.name, one.dim) == (other.name, other.dim) and alike


def _look(config: Config) -> Inspection:
    if not config.database_path.exists():
        raise StoreError("reembed.missing", path=config.database_path)
    return inspect(config.database_path, busy_seconds=config.database_busy_seconds)


@contextmanager
def _alone(store: Store) -> Iterator[None]:
    """Keep a second run from the memory; one that ends, or is killed, leaves it free."""
    lock, path = store.job_lock("reembed"), store.path
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise StoreBusy("reembed.busy", path=path) from None
    except OSError as error:
        raise StoreError("store.unreachable", path=path, error=error) from None
    try:
        yield
    finally:
        lock.release()
