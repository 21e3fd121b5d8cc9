"""Rounds of conversations by cues, and the tree of files that they may be edited in."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turns_tree
from config import ROOT, Config
from core.errors import InvalidInput
from memories import Open
from recall.turns import Turn, TurnMemory, as_object
from turns_tree import encoded

HOSTILE = [
    "../x",
    "a\0b",
    "x" * 300,
    "周会",
    "CON",
    "con",
    "com1",
    "end..",
    "Ab",
    "ab",
    "a b",
    "%41",
]
HOSTILE += [".", "..", "/etc/passwd", "C:\\x", "~", "é", "e\u0301", "Ä" * 150, "a\u2028b", "-rf"]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[TurnMemory]:
    with TurnMemory(tmp_path / "root") as opened:
        yield opened


@pytest.fixture
def talk(memory: TurnMemory) -> TurnMemory:
    """Two sessions, a day apart."""
    say = memory.remember
    say(
        "My dog Lucky is a retriever",
        "Cute! How old is he?",
        session_id="chat",
        timestamp="2026-07-01T10:00:00Z",
    )
    say("He is three", "A fine age.", session_id="chat", timestamp="2026-07-01T10:01:00Z")
    say("The kettle is in the attic", "Noted.", session_id="home", timestamp="2026-07-02")
    return memory


def tree(memory: TurnMemory, root: Path, *arguments: str) -> int:
    return turns_tree.main([*arguments, "--root", str(root), "--db", str(memory.path)])


def everything(memory: TurnMemory) -> set[tuple[str, ...]]:
    every = (turn for session in memory.sessions() for turn in memory.turns(session))
    return {tuple(as_object(turn).values()) for turn in every}


# --- Remembering and recalling ---------------------------------------------------------


def test_a_round_is_found_by_its_cues_and_the_next_one_with_it(talk: TurnMemory) -> None:
    first, second = talk.recall("what breed is my dog?")
    assert (first.user_text, first.assistant_text) == (
        "My dog Lucky is a retriever",
        "Cute! How old is he?",
    )
    assert (first.session_id, first.round_id, first.cues) == ("chat", "1", ("dog",))
    assert (second.round_id, second.cues) == ("2", ())
    assert first.score > second.score > 0
    assert talk.recall("who is this of the") == talk.recall("zebra") == []
    assert len(talk.recall("dog", top_k=1)) == 1


def test_chinese_rounds_are_found_and_the_users_terms_stay_whole(tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_text("量子纠缠态\n", "utf-8")
    with TurnMemory(tmp_path / "zh", userdict=tmp_path / "terms.txt") as memory:
        memory.remember("我养了只金毛狗，叫 Lucky", "可爱！", session_id="u1", round_id=1)
        memory.remember("今天读了量子纠缠态的论文", "难吗？", session_id="u2", round_id=1)
        assert memory.recall("金毛狗叫什么名字")[0].session_id == "u1"
        assert "量子纠缠态" in memory.recall("量子纠缠态")[0].cues
        assert memory.recall("的了吗") == []


def test_the_same_round_again_replaces_it_and_keeps_its_history(talk: TurnMemory) -> None:
    assert talk.remember("My cat is a tabby", "Nice.", session_id="chat", round_id=1) == "1"
    assert [turn.user_text for turn in talk.turns("chat")] == ["My cat is a tabby", "He is three"]
    assert talk.versions("chat", "1")[0].user_text.startswith("My dog")
    assert [turn.session_id for turn in talk.recall("dog")] == []
    assert talk.recall("tabby cat")[0].timestamp == "2026-07-01T10:00:00.000Z"
    talk.remember("My cat is a tabby", "Nice.", session_id="chat", round_id=1)
    assert len(talk.versions("chat", "1")) == 2
    talk.remember("My cat is", "a tabby\nNice.", session_id="chat", round_id=1)
    assert talk.turns("chat")[0].assistant_text == "a tabby\nNice."


def test_what_another_process_writes_is_found_at_once(talk: TurnMemory) -> None:
    assert talk.recall("zebra") == []
    with TurnMemory(talk.path.parent) as other:
        other.remember("A zebra crossed", session_id="zoo")
        assert talk.recall("zebra")[0].session_id == "zoo"
        other.delete("zoo")
        assert talk.recall("zebra") == []
        assert other.recall("retriever") == talk.recall("retriever")


@pytest.mark.parametrize("wrong", [0, 101, "many", None])
def test_how_many_are_wanted_is_checked(talk: TurnMemory, wrong: int) -> None:
    with pytest.raises(InvalidInput, match="top_k"):
        talk.recall("dog", top_k=wrong)


def test_equal_texts_of_two_rounds_are_two(memory: TurnMemory) -> None:
    for _ in range(2):
        memory.remember("ok", "ok", session_id="s", timestamp="2026-07-01")
    assert [turn.round_id for turn in memory.turns("s")] == ["1", "2"]


@pytest.mark.parametrize("last", ["9" * 30, str(2**63 - 1), "9" * 15, "-7"])
def test_rounds_are_counted_on_whatever_number_the_last_one_has(
    memory: TurnMemory, last: str
) -> None:
    memory.remember("the first", session_id="chat", round_id=last)
    counted = [memory.remember(f"text {number}", session_id="chat") for number in range(3)]
    assert len({last, *counted}) == len(memory.turns("chat")) == 4


def test_what_is_no_id_is_refused_wherever_it_is_given(talk: TurnMemory) -> None:
    wrong: Any
    for wrong in (b"x", 10**5000, ["x"], "\ud800"):
        for call in (
            partial(talk.remember, "text", session_id=wrong),
            partial(talk.remember, "text", session_id="chat", round_id=wrong),
            partial(talk.turns, wrong),
            partial(talk.versions, "chat", wrong),
            partial(talk.forget, [(wrong, "1")]),
            partial(talk.delete, wrong),
        ):
            with pytest.raises(InvalidInput, match="_id must be a text"):
                call()
    wrong = None
    with pytest.raises(InvalidInput, match="session_id must be a text"):
        talk.remember("text", session_id=wrong)
    assert talk.sessions() == ["chat", "home"]


def test_a_deleted_session_is_in_no_list_and_in_its_history(talk: TurnMemory) -> None:
    assert talk.sessions() == ["chat", "home"]
    assert (talk.delete("chat"), talk.delete("chat")) == (2, 0)
    assert talk.sessions() == ["home"]
    assert talk.recall("dog retriever") == talk.turns("chat") == []
    assert talk.export("chat") == []
    assert len(talk.versions("chat", "1")) == 1


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"user_text": " ", "assistant_text": ""}, "user_text"),
        ({"user_text": "\ud800"}, "user_text"),
        ({"user_text": 5}, "user_text"),
        ({"assistant_text": "x" * 70_000}, "assistant_text"),
        ({"session_id": ""}, "session_id"),
        ({"session_id": "x" * 1001}, "session_id"),
        ({"round_id": " "}, "round_id"),
        ({"timestamp": "yesterday"}, "timestamp"),
    ],
)
def test_what_is_no_round_is_refused_by_name(
    memory: TurnMemory, wrong: dict[str, object], told: str
) -> None:
    with pytest.raises(InvalidInput, match=told):
        memory.remember(**{"user_text": "x", "session_id": "s", **wrong})  # type: ignore[arg-type]
    assert memory.sessions() == []


def test_secrets_are_treated_as_everywhere(tmp_path: Path) -> None:
    config = Config.load(guard_mode="redact")
    with TurnMemory(tmp_path, config=config) as memory:
        memory.remember("my password: Blau7Fuchs!", session_id="s")
        assert "Blau7Fuchs" not in memory.turns("s")[0].user_text


def test_the_server_finds_and_changes_the_same_rounds(talk: TurnMemory, open_memory: Open) -> None:
    server = open_memory(path=talk.path)
    hit = server.recall("retriever", strategy="meta_only")["hits"][0]
    assert hit["content"] == "My dog Lucky is a retriever\nCute! How old is he?"
    server.update(hit["chunk_id"], new_content="My dog Lucky is a retriever\nHe is lovely.")
    assert talk.turns("chat")[0].assistant_text == "He is lovely."
    server.update(hit["chunk_id"], new_content="My dog Rex is a poodle")
    changed = talk.turns("chat")[0]
    assert (changed.user_text, changed.assistant_text) == ("My dog Rex is a poodle", "")
    talk.remember("He is\0three", "A fine age.", session_id="chat", round_id=2)
    cut = server.recall("fine", strategy="meta_only")["hits"][0]["chunk_id"]
    server.update(cut, new_content="He was\0five")
    assert (talk.turns("chat")[1].user_text, talk.turns("chat")[1].assistant_text) == (
        "He was\0five",
        "",
    )
    server.remember("a poodle that is no round")
    assert [turn.round_id for turn in talk.recall("poodle", top_k=1)] == ["1"]
    server.forget(hit["chunk_id"])
    assert [turn.round_id for turn in talk.turns("chat")] == ["2"]


def test_importing_loads_next_to_nothing() -> None:
    script = """
import sys, time
before = time.process_time()
from recall import turns
heavy = ("numpy", "apsw", "mcp", "embedder", "fastembed", "jieba", "spacy", "memory", "store")
print([name for name in heavy if name in sys.modules])
from tempfile import TemporaryDirectory
with TemporaryDirectory() as folder, turns.TurnMemory(folder) as memory:
    memory.remember("the kettle", session_id="s")
    assert memory.recall("kettle")
print([name for name in ("mcp", "embedder", "fastembed", "jieba", "memory") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n[]\n"


@pytest.mark.parametrize(("language", "moved"), [("en", "has moved"), ("zh", "已移动")])
def test_a_program_that_imports_it_from_its_old_place_is_told_the_new_one(
    language: str, moved: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from turns import TurnMemory"],
        cwd=ROOT,
        env=os.environ | {"MNELO_MEMORY_LANG": language, "PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 1
    assert moved in done.stderr
    assert done.stderr.endswith("from recall.turns import TurnMemory\n")
    assert done.stderr.count("\n") == 1


# --- The tree --------------------------------------------------------------------------


@given(st.text(min_size=1).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)))
def test_a_name_is_one_safe_name_and_comes_back(name: str) -> None:
    safe = encoded(name)
    assert "~" in safe or unquote(safe) == name
    assert len(safe.encode()) <= 255
    assert safe == safe.lower()
    assert not set(safe) & set('/\\:*?"<>|. \0')


def test_hostile_names_stay_apart_whatever_the_file_system(tmp_path: Path) -> None:
    names = [encoded(name) for name in HOSTILE]
    assert len({name.casefold() for name in names}) == len(HOSTILE)
    assert not {"con", "nul", "com1", ".", ".."} & set(names)


def test_what_is_exported_is_what_is_imported_hostile_names_too(
    memory: TurnMemory, tmp_path: Path
) -> None:
    for number, name in enumerate(HOSTILE):
        memory.remember(f"I am number {number}", "Voilà.\n\n{}", session_id=name, round_id=name)
    assert tree(memory, tmp_path / "tree", "export") == 0
    assert {path.name for path in tmp_path.iterdir()} - {"home"} == {"root", "tree"}
    files = [path for path in (tmp_path / "tree").rglob("*") if path.is_file()]
    assert len(files) == len(HOSTILE)
    assert all(len(path.relative_to(tmp_path / "tree").parts) == 3 for path in files)
    with TurnMemory(tmp_path / "other") as other:
        assert tree(other, tmp_path / "tree", "import") == 0
        assert everything(other) == everything(memory)


TEXT = st.text(st.characters(exclude_categories=["Cs"], max_codepoint=0x2E7F), max_size=20)


def test_export_then_import_is_the_identity(memory: TurnMemory, tmp_path: Path) -> None:
    @given(st.data())
    @settings(max_examples=5)
    def identity(data: st.DataObject) -> None:
        for session in memory.sessions():
            memory.delete(session)
        for number, text in enumerate(data.draw(st.lists(TEXT, max_size=5))):
            memory.remember(f"x{text}", text, session_id=text.strip() or "s", round_id=number)
        before = everything(memory)
        assert tree(memory, tmp_path / "tree", "export") == 0
        for session in memory.sessions():
            memory.delete(session)
        assert tree(memory, tmp_path / "tree", "import") == 0
        assert everything(memory) == before

    identity()


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes), "utf-8")


@pytest.fixture
def exported(talk: TurnMemory, tmp_path: Path) -> Path:
    assert tree(talk, tmp_path / "tree", "export") == 0
    return tmp_path / "tree"


def test_a_file_is_where_it_should_be_and_says_all(exported: Path) -> None:
    data = json.loads((exported / "chat/2026-07-01/2.json").read_text("utf-8"))
    assert data == {
        "session_id": "chat",
        "round_id": "2",
        "user_text": "He is three",
        "assistant_text": "A fine age.",
        "timestamp": "2026-07-01T10:01:00.000Z",
    }


def test_an_edited_file_becomes_a_new_version(talk: TurnMemory, exported: Path) -> None:
    file = exported / "chat/2026-07-01/2.json"
    edit(file, user_text="He is four")
    assert tree(talk, exported, "import", "--dry-run") == 0
    assert talk.turns("chat")[1].user_text == "He is three"
    assert tree(talk, exported, "import") == 0
    assert talk.turns("chat")[1].user_text == "He is four"
    assert len(talk.versions("chat", "2")) == 2
    edit(file, timestamp="2026-07-03T00:00:00.000Z")
    assert tree(talk, exported, "import") == 0
    assert talk.turns("chat")[1].timestamp == "2026-07-03T00:00:00.000Z"


def test_export_leaves_what_was_changed_by_hand(
    talk: TurnMemory, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(exported / "chat/2026-07-01/2.json", user_text="He is four")
    talk.remember("He is five", session_id="chat", round_id=2)
    assert tree(talk, exported, "export") == 1
    assert "2.json was changed by hand" in capsys.readouterr().err
    assert "four" in (exported / "chat/2026-07-01/2.json").read_text("utf-8")


@pytest.mark.parametrize("when", ["2026-07-01 12:00+02:00", "2026-07-01T10:00Z", ""])
def test_a_time_may_be_spelled_in_any_way_and_the_next_export_puts_it_right(
    talk: TurnMemory, exported: Path, when: str
) -> None:
    file = exported / "chat" / "2026-07-01" / "1.json"
    before = file.read_text("utf-8")
    data = json.loads(before)
    file.write_text(json.dumps(data | {"timestamp": when}), "utf-8-sig")
    assert tree(talk, exported, "import") == 0
    assert len(talk.versions("chat", "1")) == 1
    assert tree(talk, exported, "export") == 0
    assert file.read_text("utf-8") == before


@pytest.mark.parametrize(
    "wrong",
    [{"timestamp": "soon"}, {"user_text": "", "assistant_text": ""}, {"user_text": "\ud800"}],
)
def test_a_dry_run_refuses_what_an_import_refuses(
    talk: TurnMemory, exported: Path, capsys: pytest.CaptureFixture[str], wrong: dict[str, str]
) -> None:
    file = exported / "chat" / "2026-07-01" / "1.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | wrong), "utf-8")
    capsys.readouterr()
    said = []
    for more in ([], ["--dry-run"]):
        assert tree(talk, exported, "import", *more) == 1
        said.append(capsys.readouterr())
    assert said[0].err == said[1].err
    assert "0 rounds remembered" in said[1].out


def test_a_file_that_is_gone_forgets_only_if_asked(
    talk: TurnMemory, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (exported / "chat/2026-07-01/1.json").unlink()
    assert tree(talk, exported, "import") == 0
    assert len(talk.turns("chat")) == 2
    assert tree(talk, exported, "import", "--prune", "--dry-run") == 0
    assert len(talk.turns("chat")) == 2
    assert tree(talk, exported, "import", "--prune") == 0
    assert [turn.round_id for turn in talk.turns("chat")] == ["2"]
    assert len(talk.versions("chat", "1")) == 1
    assert tree(talk, exported / "nowhere", "import", "--prune") == 1
    assert "holds no round" in capsys.readouterr().err
    assert len(talk.turns("chat")) == 1


def test_what_was_forgotten_goes_from_the_tree_too(talk: TurnMemory, exported: Path) -> None:
    talk.delete("chat")
    assert tree(talk, exported, "export") == 0
    assert [path.name for path in exported.rglob("*.json")] == ["1.json"]
    assert tree(talk, exported, "import") == 0
    assert talk.sessions() == ["home"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"session_id": "chat"}', "\ufeff{}", "[" * 9999])
def test_a_file_that_is_no_round_is_named_and_prunes_nothing(
    talk: TurnMemory, exported: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (exported / "chat/2026-07-01/1.json").write_text(text, "utf-8")
    assert tree(talk, exported, "import", "--prune") == 1
    assert "1.json is no round that can be imported" in capsys.readouterr().err
    assert len(everything(talk)) == 3


def test_a_file_that_names_another_session_is_left_alone(
    talk: TurnMemory, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(exported / "chat/2026-07-01/1.json", session_id="home")
    assert tree(talk, exported, "import") == 1
    assert "another session or round" in capsys.readouterr().err
    assert len(talk.turns("home")) == 1


@pytest.mark.parametrize("linked", ["chat", "chat/2026-07-01", "chat/2026-07-01/1.json"])
def test_no_symbolic_link_leads_out(
    talk: TurnMemory, exported: Path, tmp_path: Path, linked: str
) -> None:
    outside = tmp_path / "outside"
    (exported / linked).rename(outside)
    (exported / linked).symlink_to(outside)
    held = {path: path.read_bytes() for path in (outside, *outside.rglob("*")) if path.is_file()}
    talk.remember("My cat is a tabby", session_id="chat", round_id=1)
    assert tree(talk, exported, "import") == 1
    assert talk.turns("chat")[0].user_text == "My cat is a tabby"
    assert tree(talk, exported, "export") == 1
    assert held == {
        path: path.read_bytes() for path in (outside, *outside.rglob("*")) if path.is_file()
    }


def test_a_round_without_its_own_cues_is_found_by_its_event(memory: TurnMemory) -> None:
    say: Callable[..., str] = memory.remember
    say("The sourdough needs rye", "How long does it rest?", session_id="s")
    say("It is this one", "", session_id="s", round_id=2)
    say("And that", "", session_id="s", round_id=3)
    found: list[Turn] = memory.recall("sourdough")
    assert {turn.round_id for turn in found} == {"1", "2", "3"}
