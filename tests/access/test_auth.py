"""Where the token comes from, and which requests carry it."""

from pathlib import Path

import pytest

from access.auth import load_token, verify_bearer
from config import Config
from core.errors import AuthError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


def config(home: Path, **env: str) -> Config:
    return Config.load({"MNELO_HOME": str(home), **env})


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return file


def test_without_any_source_there_is_no_token(home: Path) -> None:
    assert load_token(config(home), None, {}) is None


def test_the_sources_come_in_order_flag_setting_variable_default_file(home: Path) -> None:
    default = write(home / ".config/mnelo/auth_token", "from-default\n")
    setting = write(home / "setting", "from-setting")
    flag = write(home / "flag", "from-flag")
    env = {"MNELO_AUTH_TOKEN": "from-variable"}
    set_in_config = config(home, MNELO_MEMORY_AUTH_TOKEN_FILE=str(setting))

    assert load_token(set_in_config, flag, env) == "from-flag"
    assert load_token(set_in_config, None, env) == "from-setting"
    assert load_token(config(home), None, env) == "from-variable"
    assert load_token(config(home), None, {}) == "from-default"
    assert default.read_text("utf-8") == "from-default\n"


def test_the_misspelt_variable_of_older_installations_counts_after_the_right_one(
    home: Path,
) -> None:
    old = {"MNEOLO_AUTH_TOKEN": "old"}

    assert load_token(config(home), None, old) == "old"
    assert load_token(config(home), None, {**old, "MNELO_AUTH_TOKEN": "new"}) == "new"
    assert load_token(config(home), None, {**old, "MNELO_AUTH_TOKEN": " "}) == "old"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "holds no token"),
        (" \n", "holds no token"),
        ("two words", "has a space"),
        ("line\nline", "has a space"),
        ("密码", "has a space or a character"),
    ],
)
def test_a_file_without_a_usable_token_is_refused_by_name(
    home: Path, text: str, sentence: str
) -> None:
    file = write(home / "token", text)

    with pytest.raises(AuthError, match=sentence) as refusal:
        load_token(config(home), file, {})
    assert str(file) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_named_file_that_is_missing_is_refused_even_where_a_variable_is_set(home: Path) -> None:
    missing = home / "missing"

    with pytest.raises(AuthError, match=r"missing cannot be read: No such file"):
        load_token(config(home), missing, {"MNELO_AUTH_TOKEN": "other"})


def test_an_empty_default_file_is_refused_and_not_taken_for_no_token(home: Path) -> None:
    write(home / ".config/mnelo/auth_token", "\n")

    with pytest.raises(AuthError, match="holds no token"):
        load_token(config(home), None, {})


def test_a_default_file_that_cannot_be_read_is_refused_too(home: Path) -> None:
    (home / ".config/mnelo/auth_token").mkdir(parents=True)

    with pytest.raises(AuthError, match="auth_token cannot be read"):
        load_token(config(home), None, {})


@pytest.mark.parametrize("header", ["Bearer s3cret", "bearer s3cret", "BEARER  s3cret "])
def test_the_scheme_may_be_written_in_any_case(header: str) -> None:
    assert verify_bearer([header], "s3cret")


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [""],
        ["Bearer"],
        ["Bearer "],
        ["s3cret"],
        ["Basic s3cret"],
        ["Bearer s3cre"],
        ["Bearer s3cret!"],
        ["Bearer s3crét"],
        ["Bearer s3cret", "Bearer s3cret"],
    ],
)
def test_anything_but_one_header_with_the_token_is_refused(headers: list[str]) -> None:
    assert not verify_bearer(headers, "s3cret")
