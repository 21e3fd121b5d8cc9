"""config.toml.example shows every setting as it is, and a copy of it changes nothing."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from access import auth
from config import ROOT, SETTINGS, Config
from embedder import cache_folder

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

EXAMPLE = (ROOT / "config.toml.example").read_text("utf-8")
LINE = re.compile(r"^#(?=[a-z_]+ = )", re.MULTILINE)
"""A setting that is commented out; what is said about it has a space after its sign."""

SHOWN: dict[str, Any] = tomllib.loads(LINE.sub("", EXAMPLE))
FLAT = {
    ("" if section == "main" else f"{section}.") + key: value
    for section, table in SHOWN.items()
    for key, value in table.items()
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's own folder with mnelo's default one in it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".hermes" / "memory"
    folder.mkdir(parents=True)
    return folder


def test_the_example_lists_the_settings_and_no_others() -> None:
    assert sorted(FLAT) == sorted(setting.key for setting in SETTINGS.values())
    assert len(LINE.findall(EXAMPLE)) == len(SETTINGS)


def test_a_copy_of_the_example_changes_nothing(home: Path) -> None:
    (home / "config.toml").write_text(EXAMPLE, "utf-8")
    assert Config.load({}) == Config.load({"MNELO_MEMORY_DIR": str(home)})
    assert not any(tomllib.loads(EXAMPLE).values())


def test_with_every_line_in_force_each_setting_still_has_its_default(home: Path) -> None:
    default = Config.load({})
    (home / "config.toml").write_text(LINE.sub("", EXAMPLE), "utf-8")
    loaded = Config.load({})
    # Where these have no value the place is looked for; the example names where that ends.
    places = {
        "embedder_cache_dir": cache_folder(None, {}),
        "auth_token_file": Path(auth.DEFAULT_FILE).expanduser(),
        "cues_userdict": home / "userdict.txt",
    }
    for name in SETTINGS:
        assert getattr(loaded, name) == places.get(name, getattr(default, name)), name


def test_above_each_setting_stand_its_meaning_and_its_variables() -> None:
    for setting in SETTINGS.values():
        section, _, key = setting.key.rpartition(".")
        lines = EXAMPLE.partition(f"[{section or 'main'}]\n")[2].splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith(f"#{key} = "))
        assert lines[at - 1] == f"# {' or '.join(setting.variables)}"
        assert re.fullmatch(r"# .{10,}\.", lines[at - 2]), setting.key
