"""The model of a file: loaded in the background, and anew when the file takes another one."""

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, lru_cache

import embedder
from core.errors import ModelError
from core.types import Model
from embedder import Embedder, ModelLoader
from index.calibration import Zeros, of_texts
from mnelo_locale import message
from store import Store

log = logging.getLogger("mnelo")

QUERY_CACHE = 1024
"""How many questions keep their vectors: embedding is the slow part of a recall."""


class FileModel:
    """A loaded model that makes a file's vectors, together with what the file knows of it."""

    def __init__(self, model: Embedder, known: Model) -> None:
        self.name, self.dim, self.known = model.name, model.dim, known
        self.fits, self.passages = model.fits, model.passages
        self.query = lru_cache(QUERY_CACHE)(model.query)

    @cached_property
    def zeros(self) -> Zeros:
        """The cosines of unrelated texts, by their scripts; measured when first asked for."""
        return of_texts(self)


class CurrentModel:
    """The model that the file has at the moment. Safe for use by many threads.

    `load_model` is given the name that the file has recorded, if any. `changed` is called when
    another model begins to load, because the file has another one now.
    """

    def __init__(
        self,
        store: Store,
        load_model: Callable[[str | None], Embedder],
        changed: Callable[[], object],
    ) -> None:
        self._store, self._load_model, self._changed = store, load_model, changed
        self._loader = ModelLoader(self._load)
        self._lock = threading.Lock()
        self._version = ""  # of the file's model when this one was loaded, or could not be

    @property
    def state(self) -> str:
        """`ready`, `loading`, `off`, or `idle` while nobody has asked for it."""
        return self._loader.state

    @property
    def reason(self) -> str:
        """Why there is no model, where there is none."""
        return self._loader.reason

    def wait(self, seconds: float | None) -> FileModel | None:
        """The model if it is there within that time; None waits until that is known."""
        self.follow()
        return self._loader.wait(seconds)

    def follow(self) -> bool:
        """Load anew if the file has another model than the loaded one; whether it has."""
        with self._lock:
            if self._loader.state not in ("ready", "off"):
                return False
            with self._store.view() as view:
                if view.model_version() == self._version:
                    return False
            if self._version:  # else it has its first model, which is no change
                log.warning("%s", message("reembed.followed", path=self._store.path))
            self._loader = ModelLoader(self._load)
            self._loader.start()
        self._changed()
        return True

    def _load(self) -> FileModel:
        """Load the file's model; a file without one takes the model that is loaded for it."""
        with self._store.view() as view:
            known = view.model()
        self._version = known.version if known else ""
        model = self._load_model(known.name if known else None)
        if known is None:
            known = self._store.adopt_model(embedder.measured(model))
            self._version = known.version
        if (known.name, known.dim) != (model.name, model.dim):
            raise ModelError("model.differs", configured=model.name, recorded=known.name)
        if not known.noise:
            known = replace(known, noise=embedder.noise(model))
            if not self._store.read_only:
                self._store.put_noise(known.noise)
        return FileModel(model, known)
