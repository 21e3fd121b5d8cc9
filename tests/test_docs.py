"""What the documents say, compared with what is there, both ways."""

import re
from pathlib import Path

import apsw
import pytest

from access.validation import contract
from config import ROOT, Config
from timeline import arguments

README = (ROOT / "README.md").read_text("utf-8")
README_ZH = (ROOT / "README.zh.md").read_text("utf-8")
ARCHITECTURE = (ROOT / "docs" / "ARCHITECTURE.md").read_text("utf-8")


def columns(schema: str) -> dict[str, set[str]]:
    """The columns of each plain table and view that schema.sql makes."""
    db = apsw.Connection(":memory:")
    db.execute(schema)
    names = [
        row[0]
        for row in db.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND sql NOT LIKE"
            " 'CREATE VIRTUAL%' AND name NOT LIKE '%trigrams%'"
            " AND name NOT LIKE 'sqlite%'"
        )
    ]
    found = {
        name: {row[0] for row in db.execute("SELECT name FROM pragma_table_info(?)", (name,))}
        for name in names
    }
    db.close()
    return found


def documented() -> dict[str, set[str]]:
    text = (ROOT / "docs" / "SCHEMA.md").read_text("utf-8")
    tables = {}
    for section in re.split(r"^### ", text, flags=re.M)[1:]:
        title, body = section.split("\n", 1)
        cells = re.findall(r"^\| (`.+?) \|", body, flags=re.M)
        if cells:
            tables[title.strip()] = {
                name for cell in cells for name in re.findall(r"`(\w+)`", cell)
            }
    return tables


def test_schema_md_names_every_table_and_column_and_no_other() -> None:
    assert documented() == columns((ROOT / "schema.sql").read_text("utf-8"))


@pytest.mark.parametrize("text", [README, README_ZH], ids=["en", "zh"])
def test_the_readmes_list_the_tools_that_there_are(text: str) -> None:
    listed = set(re.findall(r"^\| `(memory_\w+)`", text, flags=re.M))
    config = Config.load({})
    assert listed == {*contract(config).tools, *arguments.contract(config).tools}


def test_both_readmes_have_the_same_commands_and_tables() -> None:
    blocks = r"```(?:bash|python)\n(.*?)```"
    assert re.findall(blocks, README, re.S) == re.findall(blocks, README_ZH, re.S)
    assert [line.count("|") for line in README.splitlines() if line.startswith("|--")] == [
        line.count("|") for line in README_ZH.splitlines() if line.startswith("|--")
    ]


def test_the_two_commands_are_marked_for_ci() -> None:
    assert re.findall(r"<!-- ci: (\w+) -->\n```bash\n", README) == ["run", "test"]


def test_every_folder_is_in_the_architecture() -> None:
    listed = re.findall(r"^\| `(\w+)/`", ARCHITECTURE, re.M)
    assert sorted(listed) == sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


def test_every_dependency_has_a_reason() -> None:
    reasons = ARCHITECTURE.split("## Dependencies")[1]
    for name in ("requirements.txt", "requirements-dev.txt"):
        for line in (ROOT / name).read_text("utf-8").splitlines():
            if match := re.match(r"[A-Za-z0-9][A-Za-z0-9-]+", line):
                assert match.group() in reasons, match.group()


def test_every_test_that_the_page_on_security_names_is_there() -> None:
    page = (ROOT / "docs" / "SECURITY.md").read_text("utf-8")
    file, found = "", 0
    for name in re.findall(r"`(tests/[\w/]+\.py|test_\w+)`", page):
        if name.startswith("tests/"):
            file = (ROOT / name).read_text("utf-8")
        else:
            assert re.search(rf"^(?:async )?def {name}\(", file, re.M), name
            found += 1
    assert found > 15


@pytest.mark.parametrize("document", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/*.md")))
def test_links_lead_to_files(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text("utf-8")):
        assert (document.parent / target).exists(), target
