"""Fixtures every test may use: a fresh memory on disk, and no setting from outside."""

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from config import ROOT, Config
from hash_embedder import HashEmbedder
from memories import Open
from memory import Memory
from serving import environment

# What is started may keep what it has compiled: the next one starts in half the time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

SLOW = {"subprocess", "serving", "OfflineE5"}
"""What a file of tests imports that takes long, however few tests it has."""

# The same examples in every run: a change is judged by what it changed.
settings.register_profile("suite", max_examples=100, derandomize=True, database=None, deadline=None)
settings.register_profile("long", settings.get_profile("suite"), max_examples=400)


def pytest_addoption(parser: pytest.Parser) -> None:
    told = "also run what takes long: a thousand kills, a long soak, 400 examples instead of 100"
    parser.addoption("--long", action="store_true", help=told)


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("long" if config.getoption("--long") else "suite")
    config.addinivalue_line("markers", "long: takes long; runs with --long only")
    config.addinivalue_line("markers", "soaks: hears, last of all, what ran beside all others")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Have the garbage collector leave alone what stays anyway: it took a fourth of the time."""
    gc.disable()
    collected = yield
    gc.freeze()
    gc.enable()
    return collected


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow files first. Leave out, without a word of skipping, what only --long asks for."""
    items.sort(key=_order)
    left_out = [item for item in items if item.get_closest_marker("long")]
    if left_out and not config.getoption("--long"):
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _order(item: pytest.Item) -> tuple[bool, bool]:
    slow = SLOW & vars(getattr(item, "module", None) or item).keys()
    return item.get_closest_marker("soaks") is not None, not slow


@pytest.fixture(scope="session", autouse=True)
def soaking(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path | None]:
    """A minute's soak beside all other tests, where its own test was chosen too: its verdict.

    Of several workers the first one starts it, and any may hear the verdict.
    """
    if not any(item.get_closest_marker("soaks") for item in request.session.items):
        yield None
        return
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "soak"
    try:
        folder.mkdir()
    except FileExistsError:
        yield folder / "verdict.json"
        return
    program = str(ROOT / "tests" / "support" / "soak.py")
    command = [sys.executable, program, "--rate", "2", "--nice", "10"]
    with (folder / "verdict.json").open("wb") as verdict:
        process = subprocess.Popen(
            [*command, "--folder", str(folder)],
            env=environment(folder, {}),
            stdout=verdict,
            stderr=subprocess.STDOUT,
        )
    yield folder / "verdict.json"
    if request.session.shouldstop or request.session.shouldfail:
        process.terminate()
    process.wait()


@pytest.fixture(scope="session", autouse=True)
def clean_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads the developer's own memory, language, token or settings, or the network."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in list(os.environ):
            if variable.startswith(
                ("MNELO_", "MNEOLO_", "HF_", "HUGGINGFACE_", "FASTEMBED_", "VELLUM_")
            ):
                patch.delenv(variable)
        nobody = tmp_path_factory.getbasetemp() / "nobody"  # it does not exist
        patch.setenv("HOME", str(nobody))
        patch.setenv("MNELO_HOME", str(nobody / "home"))
        patch.setenv("MNELO_MEMORY_LANG", "en")
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield


@pytest.fixture
def tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test's own folder, which is its home too."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MNELO_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture(scope="session")
def empty_files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[HashEmbedder | None], Path]:
    """An empty memory as it is for any test: made once, for a copy costs far less."""

    @cache
    def made(known: bool) -> Path:
        path = tmp_path_factory.mktemp("empty") / "memory.db"
        load = (lambda recorded: HashEmbedder()) if known else None
        with Memory(path, config=Config.load({}, embedder_model="none"), load_model=load) as memory:
            memory.wait_for_model(10)
        return path

    usual = vars(HashEmbedder())
    return lambda model: made(type(model) is HashEmbedder and vars(model) == usual)


@pytest.fixture
def open_memory(
    tmp_path: Path, empty_files: Callable[[HashEmbedder | None], Path]
) -> Iterator[Open]:
    """Open the test's memory, as often as it likes; `model` is an embedder, or None for none."""
    opened: list[Memory] = []
    usual = tmp_path / "memory.db"

    def open_it(
        *,
        model: HashEmbedder | None = None,
        path: Path = usual,
        **settings: Any,
    ) -> Memory:
        config = Config.load(**{"embedder_model": None if model else "none", **settings})
        load = (lambda recorded: model) if model else None
        if path == usual and not path.exists():
            shutil.copy(empty_files(model), path)
        opened.append(Memory(path, config=config, load_model=load))
        opened[-1].wait_for_model(10)
        return opened[-1]

    yield open_it
    for each in opened:
        each.close()


@pytest.fixture
def memory(open_memory: Open) -> Memory:
    """A fresh memory with a small embedder."""
    return open_memory(model=HashEmbedder())


@pytest.fixture
def wordless(open_memory: Open) -> Memory:
    """A fresh memory without any model: what it finds, it finds by words, names and links."""
    return open_memory()


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Callable[[object], None]:
    """Prints beside pytest's own lines."""

    def show(what: object) -> None:
        with capsys.disabled():
            print(f"\n{what}")

    return show
