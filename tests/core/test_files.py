"""Files of ours: nothing that is no regular file is read, written to or replaced."""

import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import Timeout

from core import files
from irregular import IRREGULAR, dead_link, folder, link, pipe, state

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="neither modes nor pipes")


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o277], ids=oct)
def any_umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def write(path: Path, meanwhile: Callable[[], None] = lambda: None) -> None:
    with files.replacing(path) as out:
        out.write("new")
        meanwhile()


def lock(path: Path) -> None:
    with files.PrivateLock(path, timeout=0):
        pass


@pytest.mark.parametrize("irregular", IRREGULAR)
@pytest.mark.parametrize(
    "use", [write, lock, lambda path: files.appending(path).close(), files.make_private]
)
def test_what_is_no_regular_file_is_left_as_it_is(
    use: Callable[[Path], None], irregular: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "ours"
    irregular(path)
    before = state(path)
    if use is files.make_private:
        use(path)
    else:
        with pytest.raises(OSError, match="not a regular file"):
            use(path)
    assert state(path) == before


def test_what_came_while_a_file_was_written_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "ours"
    with pytest.raises(OSError, match="not a regular file"):
        write(path, meanwhile=lambda: link(path))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ours", "precious"]


@pytest.mark.parametrize("irregular", [link, dead_link, pipe, folder])
def test_only_a_regular_file_is_read(irregular: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "given"
    irregular(path)
    with pytest.raises(OSError, match="not a regular file"):
        files.reading(path, follow=False)


def test_a_link_that_somebody_names_is_followed_to_a_file(tmp_path: Path) -> None:
    link(tmp_path / "given")
    with files.reading(tmp_path / "given") as file:
        assert file.read()
    (tmp_path / "zeros").symlink_to("/dev/zero")
    with pytest.raises(OSError, match="not a regular file"):
        files.reading(tmp_path / "zeros")


@pytest.mark.usefixtures("any_umask")
def test_files_are_their_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    files.appending(tmp_path / "log").close()
    write(tmp_path / "report")
    with files.PrivateLock(tmp_path / "lock", timeout=0):
        assert mode(tmp_path / "lock") == 0o600
    assert mode(tmp_path / "log") == mode(tmp_path / "report") == 0o600


def test_files_that_others_could_open_are_mended(tmp_path: Path) -> None:
    names = ("log", "lock", "report")
    for name in names:
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o666)
    files.appending(tmp_path / "log").close()
    lock(tmp_path / "lock")
    files.make_private(tmp_path / "report")
    assert {mode(tmp_path / name) for name in names} == {0o600}


def test_a_lock_still_keeps_others_out(tmp_path: Path) -> None:
    with files.PrivateLock(tmp_path / "lock", timeout=0), pytest.raises(Timeout):
        lock(tmp_path / "lock")
    lock(tmp_path / "lock")
