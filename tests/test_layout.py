"""What the flat layout promises: no borrowed names, SQL in one place, a start from anywhere."""

import ast
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from checkout import CODE, FLAT, ROOMS
from config import ROOT

TOP = {path.stem for path in CODE if path.parent in FLAT} | {room.name for room in ROOMS}
HELPERS = sorted((ROOT / "tests" / "support").glob("*.py"))
SCRIPTS = sorted((ROOT / "scripts").glob("[!_]*.py"))

SQL = re.compile(
    r"\bselect\s.+\sfrom\s|\binsert\s+(or\s+\w+\s+)?into\s|\bupdate\s+\w+\s+set\s|\bdelete\s+from\s"
    r"|\bpragma\s+\w|\bbegin\s+(immediate|exclusive|deferred)\b|^\s*(commit|rollback)\s*;?\s*$"
    r"|\bcreate\s+(virtual\s+|temp\s+)?(table|index|view|trigger)\s|\bdrop\s+table\s"
    r"|\bjoin\s+\w+(\s+\w+)?\s+(on|using)\b|\bwhere\s+[\w.]+\s*([=<>]|in\s*\(|is\s+(not\s+)?null|like\s)",
    re.IGNORECASE | re.DOTALL,
)
DRIVERS = {"apsw", "sqlite3", "sqlite_vec"}


def named(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=[path.name for path in paths])


def docstrings(tree: ast.Module) -> set[int]:
    """The strings that only say something: they stand alone as a statement."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def sql_in(source: str) -> list[str]:
    """The strings of a file that are SQL, or a part of it."""
    tree = ast.parse(source)
    only_said = docstrings(tree)
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in only_said
        and SQL.search(node.value)
    ]


def imports(source: str) -> list[str]:
    """The modules that a file imports, in order."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module.partition(".")[0])
    return found


def test_no_module_hides_a_library() -> None:
    own = {path.stem for path in HELPERS} | TOP
    assert own & sys.stdlib_module_names == set()
    assert own & set(packages_distributions()) == set()


def test_no_two_modules_have_the_same_name() -> None:
    names = [path.stem for path in [*CODE, *HELPERS] if path in HELPERS or path.parent in FLAT]
    names += [room.name for room in ROOMS]
    assert len(names) == len(set(names))


def test_neither_the_root_nor_what_is_run_is_a_package() -> None:
    faces = {path.parent for path in CODE if path.name == "__init__.py"}
    assert not faces & {ROOT, ROOT / "api", ROOT / "scripts"}
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_the_test_of_a_module_lies_where_the_module_does() -> None:
    """That of store/sqlite/undo.py is tests/store/test_undo.py; those of the whole lie above."""
    code = [path.relative_to(ROOT) for path in [*CODE, *(ROOT / "scripts").glob("*.sh")]]
    modules = {(path.parts[0], path.stem) for path in code}
    tests = (ROOT / "tests").glob("*/test_*.py")
    assert {(path.parent.name, path.stem.removeprefix("test_")) for path in tests} <= modules


# The plain design is what the benchmark measures beside: its SQL is meant to be plain.
def test_only_the_store_knows_sql() -> None:
    for path in CODE:
        inside = path.is_relative_to(ROOT / "store" / "sqlite")
        if not inside and path.name != "benchmark_plain.py":
            source = path.read_text("utf-8")
            assert sql_in(source) == [], path.name
            assert not DRIVERS & set(imports(source)), path.name


def test_sql_is_recognised_where_it_is() -> None:
    files = [path.read_text("utf-8") for path in (ROOT / "store" / "sqlite").glob("*.py")]
    assert sum(len(sql_in(each)) for each in files) > 30
    assert {"apsw", "sqlite_vec"} <= {name for each in files for name in imports(each)}
    for text in (
        *("SELECT id\nFROM chunks", "insert or ignore into tags", "UPDATE chunks SET", "COMMIT"),
        *("DELETE FROM tags", "PRAGMA user_version", "BEGIN IMMEDIATE", "WHERE id = ?"),
    ):
        assert sql_in(f"x = {text + ' '!r}") == [text + " "]
    for text in ("Select one from the list.", "begin with this", "updated", "Where it is from"):
        assert sql_in(f'def f():\n    """{text}"""\n') == []
    assert sql_in("x = 'Where it is from; which to update and set'") == []


@named(SCRIPTS)
def test_a_script_makes_the_modules_importable_before_it_needs_them(path: Path) -> None:
    first = next(name for name in imports(path.read_text("utf-8")) if name in TOP)
    assert first == "_root"


def test_the_server_starts_from_any_folder(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "mcp_server.py", "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "--auth-token-file" in done.stdout
    assert list(tmp_path.iterdir()) == []
