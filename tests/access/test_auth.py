"""Where the token comes from, and which requests carry it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from access.auth import load_token, verify_bearer
from config import Config
from core.errors import AuthError

PRIVATE = pytest.mark.skipif(sys.platform == "win32", reason="files there have no such modes")


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
    file.chmod(0o600)
    return file


def test_without_any_source_there_is_no_token(home: Path) -> None:
    assert load_token(config(home), None, {}) is None


def test_the_sources_come_in_order_flag_setting_variable_default_file(home: Path) -> None:
    default = write(home / ".config/mnelo/auth_token", "from-default-of-the-tests\n")
    setting = write(home / "setting", "from-setting-of-the-tests")
    flag = write(home / "flag", "from-flag-of-the-tests")
    env = {"MNELO_AUTH_TOKEN": "from-variable-of-the-tests"}
    set_in_config = config(home, MNELO_MEMORY_AUTH_TOKEN_FILE=str(setting))

    assert load_token(set_in_config, flag, env) == "from-flag-of-the-tests"
    assert load_token(set_in_config, None, env) == "from-setting-of-the-tests"
    assert load_token(config(home), None, env) == "from-variable-of-the-tests"
    assert load_token(config(home), None, {}) == "from-default-of-the-tests"
    assert default.read_text("utf-8") == "from-default-of-the-tests\n"


def test_the_misspelt_variable_of_older_installations_counts_after_the_right_one(
    home: Path,
) -> None:
    old = {"MNEOLO_AUTH_TOKEN": "the-old-one-of-the-tests"}
    new = "the-new-one-of-the-tests"

    assert load_token(config(home), None, old) == old["MNEOLO_AUTH_TOKEN"]
    assert load_token(config(home), None, {**old, "MNELO_AUTH_TOKEN": new}) == new
    assert (
        load_token(config(home), None, {**old, "MNELO_AUTH_TOKEN": " "}) == old["MNEOLO_AUTH_TOKEN"]
    )


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


# --- What is no secret -----------------------------------------------------------------


@pytest.mark.parametrize("text", ["x", "hunter2", "fifteen-letters", "0" * 64, "abcab" * 9])
def test_a_token_that_can_be_guessed_is_refused_with_the_command_that_makes_one(
    home: Path, text: str
) -> None:
    """A file of one character was once taken without a word."""
    file = write(home / "a token", text)

    with pytest.raises(AuthError, match="can be guessed") as refusal:
        load_token(config(home), file, {})
    assert f"token_urlsafe(32))' > '{file}')" in str(refusal.value)
    with pytest.raises(AuthError, match=r"MNELO_AUTH_TOKEN can be guessed.*token_urlsafe"):
        load_token(config(home), None, {"MNELO_AUTH_TOKEN": text})


def test_the_command_that_is_named_makes_a_token_that_is_taken(home: Path) -> None:
    file = write(home / "it's a token", "weak")
    with pytest.raises(AuthError) as refusal:
        load_token(config(home), file, {})

    command = str(refusal.value).partition("make another: ")[2]
    subprocess.run(["bash", "-c", command], check=True)  # noqa: S607

    assert len(load_token(config(home), file, {}) or "") == 43


@PRIVATE
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o666])
def test_a_token_that_others_may_use_is_refused_with_the_command_that_closes_it(
    home: Path, mode: int
) -> None:
    file = write(home / "token", "known-to-all-who-look")
    file.chmod(mode)

    with pytest.raises(AuthError, match=f"mode {mode:03o}") as refusal:
        load_token(config(home), file, {})
    assert str(refusal.value).endswith(f": chmod 600 {file}")

    file.chmod(0o400)
    assert load_token(config(home), file, {}) == "known-to-all-who-look"


@PRIVATE
def test_a_token_file_of_another_user_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(home / "token", "written-by-somebody-else")
    if os.geteuid() == 0:
        os.chown(file, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)

    with pytest.raises(AuthError, match=r"belongs to another user.*sudo chown"):
        load_token(config(home), file, {})


@PRIVATE
def test_a_link_counts_as_what_it_leads_to(home: Path) -> None:
    """Secrets are often linked into place; the link's own mode says nothing."""
    file = write(home / "secrets/token", "behind-a-symbolic-link")
    (home / "token").symlink_to(file)
    assert load_token(config(home), home / "token", {}) == "behind-a-symbolic-link"

    file.chmod(0o644)
    with pytest.raises(AuthError, match="mode 644"):
        load_token(config(home), home / "token", {})


@PRIVATE
@pytest.mark.parametrize("place", ["pipe", "/dev/zero"])
def test_a_pipe_or_a_device_is_refused_and_not_waited_for(home: Path, place: str) -> None:
    """A pipe that nobody writes into once held up the start for ever."""
    if place == "pipe":
        os.mkfifo(home / "pipe", 0o600)

    with pytest.raises(AuthError, match="no regular file"):
        load_token(config(home), home / place, {})


def test_a_file_that_is_far_too_long_is_refused_and_not_read_whole(home: Path) -> None:
    file = write(home / "token", "")
    os.truncate(file, 1 << 40)
    with pytest.raises(AuthError, match="no HTTP header can carry"):
        load_token(config(home), file, {})

    with pytest.raises(AuthError, match="longer than 4096 characters"):
        load_token(config(home), write(home / "token", "0123456789abcdef" * 1000), {})


# --- Requests --------------------------------------------------------------------------


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
