"""Sentences people read: complete in each language, used, and given what they need."""

import ast
import fnmatch
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Formatter

import pytest

import mnelo_client
from checkout import CODE
from config import ROOT
from core import errors
from i18n_messages import MESSAGES
from mnelo_locale import language, message

FILES = [path for path in CODE if path.name != "i18n_messages.py"]
ID = re.compile(r"[a-z]+\.[a-z_0-9]+")
SPEAKS = {"message"} | {
    name
    for name, each in inspect.getmembers(errors, inspect.isclass)
    if issubclass(each, errors.MneloError)
}
"""What takes the id of a sentence and the values to put into it."""

SENTENCES = MESSAGES | {f"client.{key}": texts for key, texts in mnelo_client.SENTENCES.items()}
"""Those of the client stand in its own file, since that is all a program may have of mnelo."""


def placeholders(text: str) -> set[tuple[str, str, str | None]]:
    return {
        (name, spec or "", conversion)
        for _, name, spec, conversion in Formatter().parse(text)
        if name is not None
    }


# --- The table -------------------------------------------------------------------------


def test_each_sentence_is_there_in_english_and_chinese() -> None:
    for msg_id, texts in SENTENCES.items():
        assert ID.fullmatch(msg_id)
        assert {"en", "zh"} <= set(texts), msg_id
        assert texts["zh"] != texts["en"]
        assert re.search("[\u4e00-\u9fff：，。]", texts["zh"])
        assert not re.search("[\u4e00-\u9fff：，。]", texts["en"])


def test_each_sentence_says_the_same_values_in_each_language() -> None:
    for msg_id, texts in SENTENCES.items():
        for text in texts.values():
            assert text.strip(), msg_id
            assert "\n" not in text
            assert placeholders(text) == placeholders(texts["en"])
            assert all(name.isidentifier() for name, _, _ in placeholders(text))


# --- The code --------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """Where a sentence is asked for: the ids it may have, and the values it is given."""

    place: str
    ids: list[str]
    values: set[str | None]
    """None where they are handed on (`**values`)."""

    @property
    def complete(self) -> list[str]:
        return [msg_id for msg_id in self.ids if not msg_id.endswith("*")]


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text("utf-8"))))


@cache
def said() -> list[Said]:
    """All that the code asks for."""
    return list(_said())


def _said() -> Iterator[Said]:
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.Call) and node.args and _name(node.func) in SPEAKS:
                ids = _ids(node.args[0])
                if any("." in msg_id for msg_id in ids):
                    values = {keyword.arg for keyword in node.keywords}
                    yield Said(f"{path.name}:{node.lineno}", ids, values)


def _ids(argument: ast.expr) -> list[str]:
    """The ids that an expression may be; of an f-string its beginning, with a star."""
    if isinstance(argument, ast.IfExp):
        return _ids(argument.body) + _ids(argument.orelse)
    if isinstance(argument, ast.JoinedStr):
        return [f"{each}*" for each in _ids(argument.values[0])]
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return [argument.value]
    return []


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def strings() -> set[str]:
    """Every string of the code."""
    return {
        node.value
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_the_code_is_searched_for_sentences() -> None:
    assert len(said()) > 40
    assert {"message", "InvalidInput", "NotFound", "StoreError", "ConfigError"} <= SPEAKS


def test_each_sentence_that_the_code_says_exists_and_gets_its_values() -> None:
    for each in said():
        assert all(fnmatch.filter(MESSAGES, pattern) for pattern in each.ids), each.place
        if None in each.values:
            continue
        for msg_id in each.complete:
            needed = {name for name, _, _ in placeholders(MESSAGES[msg_id]["en"])}
            assert needed <= each.values, each.place
            assert len(each.ids) > 1 or needed == each.values, each.place


def test_what_is_wanted_of_an_argument_is_a_sentence() -> None:
    wanted = {text for text in strings() if re.fullmatch(r"wanted\.[a-z_]+", text)}
    assert wanted
    assert wanted <= set(MESSAGES)


def test_every_sentence_is_said_somewhere() -> None:
    patterns = [pattern for each in said() for pattern in each.ids]
    made_up = {msg_id for pattern in patterns for msg_id in fnmatch.filter(MESSAGES, pattern)}
    assert set(MESSAGES) - strings() - made_up == set()


def test_every_sentence_of_the_client_is_said_by_it() -> None:
    client = (ROOT / "api" / "mnelo_client.py").read_text("utf-8")
    keys = re.findall(r'_say\(\s*"(\w+)"', client)
    assert set(keys) == set(mnelo_client.SENTENCES)


# --- Which language --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LC_ALL": "zh_CN.UTF-8", "LANG": "en_US.UTF-8"}, "zh"),
        ({"MNELO_MEMORY_LANG": "en", "LC_ALL": "zh_CN", "LANG": "zh_CN"}, "en"),
        ({"MNELO_MEMORY_LANG": "zh", "LC_ALL": "en_US", "LANG": "en_US"}, "zh"),
        ({"MNELO_MEMORY_LANG": "", "LC_ALL": " ", "LANG": "zh_CN"}, "zh"),
        ({"MNELO_MEMORY_LANG": "zh-Hans-CN"}, "zh"),
        ({"MNELO_MEMORY_LANG": "ZH"}, "zh"),
        ({"MNELO_MEMORY_LANG": "ja"}, "ja"),
        ({"LANG": "zh.UTF-8"}, "zh"),
        ({"LANG": "de_DE@euro"}, "de"),
        ({"LANG": "C"}, "en"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LC_ALL": "POSIX", "LANG": "zh_CN"}, "en"),
        ({"LANGUAGE": "zh"}, "en"),
    ],
)
def test_the_language_is_the_first_that_the_environment_names(
    env: dict[str, str], expected: str
) -> None:
    assert language(env) == expected


def test_the_language_may_change_while_the_program_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert message("input.missing", name="query") == "query is missing."
    monkeypatch.setenv("MNELO_MEMORY_LANG", "zh")
    assert message("input.missing", name="query") == "缺少 query。"
    monkeypatch.delenv("MNELO_MEMORY_LANG")
    monkeypatch.setenv("LC_ALL", "en_GB.UTF-8")
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert message("input.missing", name="query") == "query is missing."


def test_a_third_language_is_one_edit_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    japanese = MESSAGES["input.missing"] | {"ja": "{name} がありません。"}
    monkeypatch.setitem(MESSAGES, "input.missing", japanese)
    monkeypatch.setenv("MNELO_MEMORY_LANG", "ja_JP.UTF-8")
    assert message("input.missing", name="query") == "query がありません。"
    assert str(errors.InvalidInput("input.missing", name="query")) == "query がありません。"


def test_what_a_language_lacks_is_said_in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNELO_MEMORY_LANG", "ja")
    assert message("input.missing", name="query") == "query is missing."
    monkeypatch.setitem(MESSAGES, "input.missing", {"en": "{name}?", "ja": ""})
    assert message("input.missing", name="query") == "query?"


def test_what_no_language_has_shows_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    assert message("input.nonsense", name="query") == "input.nonsense"
    monkeypatch.setitem(MESSAGES, "input.nonsense", {"ja": "?"})
    assert message("input.nonsense") == "input.nonsense"


def test_a_value_cannot_act_as_a_placeholder() -> None:
    assert message("input.missing", name="{name} {0} {x.__class__}") == (
        "{name} {0} {x.__class__} is missing."
    )
