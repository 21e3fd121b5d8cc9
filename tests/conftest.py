"""Fixtures every test may use: a fresh memory on disk, and no setting from outside."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from config import Config
from hash_embedder import HashEmbedder
from memory import Memory

Open = Callable[..., Memory]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test reads the developer's own memory, language, token or settings, or the network."""
    for variable in list(os.environ):
        if variable.startswith(("MNELO_", "MNEOLO_", "HF_", "HUGGINGFACE_", "FASTEMBED_")):
            monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MNELO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MNELO_MEMORY_LANG", "en")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def open_memory(tmp_path: Path) -> Iterator[Open]:
    """Open the test's memory, as often as it likes; `model` is an embedder, or None for none."""
    opened: list[Memory] = []

    def open_it(
        *,
        model: HashEmbedder | None = None,
        path: Path = tmp_path / "memory.db",
        **settings: Any,
    ) -> Memory:
        config = Config.load(**{"embedder_model": None if model else "none", **settings})
        load = (lambda recorded: model) if model else None
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
