"""What the layout promises: imports lead one way, SQL is in one place, it starts from anywhere."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from checkout import CODE, FLAT, ROOMS, module_of
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

ARCHITECTURE = (ROOT / "docs" / "ARCHITECTURE.md").read_text("utf-8")
MODULES = {module_of(path): path for path in CODE}
LAYERS = (
    ("i18n_messages", "api"),
    ("mnelo_locale",),
    ("core", "turns"),
    ("config",),
    ("access", "text"),
    ("index",),
    ("embedder", "entity_resolve"),
    ("store",),
    ("embedding",),
    ("recall", "upkeep"),
    ("timeline",),
    ("memory",),
    ("transfer", "admin", "server"),
    ("mcp_server",),
    ("scripts",),
)
"""Folders and modules of the root, lowest first: each imports only from layers below its own."""
HEIGHT = {name: height for height, layer in enumerate(LAYERS) for name in layer}


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


def imported(path: Path) -> set[str]:
    """The product's modules that a file imports, wherever in the file it does so."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module, f"{path} has a relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & MODULES.keys() or {node.module}
    return found & MODULES.keys()


def unit(path: Path) -> str:
    """What the layers are made of: the folder of a file, or the name of a module of the root."""
    return path.stem if path.parent == ROOT else path.relative_to(ROOT).parts[0]


def unit_arrows() -> set[tuple[str, str]]:
    """Which folder, or module of the root, imports which other."""
    arrows = {(unit(path), unit(MODULES[name])) for path in CODE for name in imported(path)}
    return {(start, end) for start, end in arrows if start != end}


def reduced(arrows: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The fewest arrows that lead from everywhere to the same places; they go in no circle."""

    def beyond(start: str) -> set[str]:
        ends = {end for other, end in arrows if other == start}
        return ends.union(*map(beyond, ends))

    return {
        (start, end)
        for start, end in arrows
        if not any(other == start and end in beyond(way) for other, way in arrows)
    }


def drawn() -> set[tuple[str, str]]:
    """The arrows of the diagram of imports in ARCHITECTURE.md."""
    (diagram,) = re.findall(r"## Imports\n.*?```mermaid\n(.*?)```", ARCHITECTURE, re.S)
    lines = re.findall(r"^ +(\w+) --> (.+)$", diagram, re.M)
    return {(start, end) for start, ends in lines for end in ends.split(" & ")}


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


def test_imports_lead_to_lower_layers_only() -> None:
    upward = [(start, end) for start, end in unit_arrows() if HEIGHT[start] <= HEIGHT[end]]
    assert upward == []


def test_the_diagram_has_the_arrows_that_there_are() -> None:
    arrows = {each for each in reduced(unit_arrows()) if each[0] != "scripts"}
    lines = [f"{start} --> {end}" for start, end in sorted(arrows)]
    assert [f"{start} --> {end}" for start, end in sorted(drawn())] == lines


def test_a_reduced_graph_leads_to_the_same_places() -> None:
    assert reduced({("c", "b"), ("b", "a"), ("c", "a"), ("d", "a")}) == {
        *(("c", "b"), ("b", "a"), ("d", "a"))
    }


def test_every_file_that_the_architecture_names_is_there() -> None:
    for name in re.findall(r"[\w/]+\.(?:py|sh|sql)\b", ARCHITECTURE):
        assert (ROOT / name).is_file(), name


def test_a_decision_takes_five_lines_at_most() -> None:
    decisions = ARCHITECTURE.split("## Decisions\n")[1].split("## Dependencies\n")[0]
    for decision in decisions.split("\n#### ")[1:]:
        title, text = decision.split("\n### ")[0].split("\n", 1)
        assert len(text.strip().splitlines()) <= 5, title


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


# Names of tables and columns that are listed in the code; each is looked at when it is added.
OF_OURS = {
    *{("checks.py", "table"), ("checks.py", "pragma"), ("cue_snapshots.py", "sql")},
    *{("erasure.py", "table"), ("removal.py", "table"), ("text_rows.py", "table")},
    *{("upkeep.py", "table"), ("upkeep.py", "key"), ("vectors.py", "table"), ("view.py", "closed")},
    *{("next_vectors.py", name) for name in ("table", "old", "new", "inner")},
    *{("row_changes.py", "each.name"), ("vectors.py", "width"), ("schema_check.py", "name")},
    *{("salvage.py", name) for name in ("columns", "table.name", "index", "order", "marks")},
    *{("salvage.py", "name"), ("salvage.py", "', '.join(table.columns)")},
}
BEGINS = re.compile(r"\s*(select|insert|update|delete|create|drop|alter|pragma|attach)\b", re.I)


def put_into_sql(source: str) -> list[str]:
    """What functions put into the text of SQL, beside constants and numbers."""
    found: list[str] = []
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                found += filter(None, map(not_constant, parts_of_sql(node)))
    return found


def parts_of_sql(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.JoinedStr) and BEGINS.match(ast.unparse(node)[2:]):
        return [each.value for each in node.values if isinstance(each, ast.FormattedValue)]
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "format":
        return [*node.args, *(each.value for each in node.keywords)]
    if not isinstance(node, ast.BinOp) or not isinstance(node.left, ast.Constant):
        return []
    return [node.right] if BEGINS.match(str(node.left.value)) else []


def not_constant(node: ast.expr) -> str:
    text = ast.unparse(node)
    if isinstance(node, ast.IfExp):
        return not_constant(node.body) or not_constant(node.orelse)
    is_number = "int(" in text or isinstance(node, ast.Constant)
    return "" if is_number or text.strip("_").isupper() else text


@named(sorted((ROOT / "store" / "sqlite").glob("*.py")))
def test_no_sql_is_made_of_stored_text(path: Path) -> None:
    put = {(path.name, each) for each in put_into_sql(path.read_text("utf-8"))}
    assert put <= OF_OURS


def test_what_is_put_into_sql_is_recognised() -> None:
    for code in ('f"SELECT {row.table} FROM x"', '"DELETE FROM " + name', "SQL.format(column)"):
        assert put_into_sql(f"def f():\n    {code}\n")
    for code in ('f"SELECT {LIVE} FROM x"', "SQL.format(4 * int(dim))", 'f"{a} from {b}"'):
        assert not put_into_sql(f"def f():\n    {code}\n")


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


FACES = [*ROOMS, ROOT / "store" / "sqlite"]


@pytest.mark.parametrize("room", FACES, ids=[room.name for room in FACES])
def test_a_folder_imports_what_its_docstring_says(room: Path) -> None:
    said = ast.get_docstring(ast.parse((room / "__init__.py").read_text("utf-8"))) or ""
    (names,) = re.findall(r"^May import: ([\w,\s]+)\.$", said, re.M)
    files = [path for path in room.rglob("*.py") if room.name != "store" or path.parent == room]
    needed = {unit(MODULES[name]) for path in files for name in imported(path)}
    assert sorted(needed - {unit(room / "__init__.py")}) == re.split(r",\s+", names)


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = {name: imported(path) for name, path in MODULES.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


PUBLIC = {"_asdict", "_exit", "_fields", "_make", "_replace"}
"""Documented names of the standard library that begin with an underscore."""


class Private(ast.NodeVisitor):
    """Collects what a file reads or writes of another object's private attributes."""

    def __init__(self) -> None:
        self.owners, self.found = ["self", "cls", "super()"], list[str]()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.owners.append(node.name)
        self.generic_visit(node)
        self.owners.pop()

    def visit_Attribute(self, node: ast.Attribute) -> None:
        private = re.match("_[^_]", node.attr) and node.attr not in PUBLIC
        if private and ast.unparse(node.value) not in self.owners:
            self.found.append(f"{ast.unparse(node)} in line {node.lineno}")
        self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        names = [alias.name for alias in node.names if re.match("_[^_]", alias.name)]
        self.found += [f"{name} of {node.module} in line {node.lineno}" for name in names]


def private_uses(source: str) -> list[str]:
    visitor = Private()
    visitor.visit(ast.parse(source))
    return visitor.found


@named(CODE)
def test_nothing_private_of_another_object_is_used(path: Path) -> None:
    assert private_uses(path.read_text("utf-8")) == []


def test_private_uses_are_recognised() -> None:
    for source in ("other._name", "self.store._db", "f()._x = 1", "from store import _name"):
        assert len(private_uses(source)) == 1
    inside = "class A:\n    def f(self):\n        return self._x, A._y, super()._z, row._asdict()"
    assert private_uses(inside) == []
    assert private_uses(inside + "\nA._y") == ["A._y in line 4"]
