"""A server stays as large and as right as it was: for a minute, and with --long for thirty."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from config import ROOT
from serving import environment

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="/proc says what is used")


@pytest.mark.soaks
@pytest.mark.timeout(300)
def test_a_minute_of_mixed_load_leaves_a_server_as_large_and_as_right_as_before(
    soaking: Path,
) -> None:
    deadline = time.monotonic() + 200
    while not soaking.read_text("utf-8").endswith("}\n") and time.monotonic() < deadline:
        time.sleep(0.2)
    verdict = _read(soaking.read_text("utf-8"))
    assert verdict["faults"] == [], verdict
    assert verdict["operations"] > 100
    assert verdict["kinds"].keys() >= {"remember", "recall", "update", "forget", "relate"}


@pytest.mark.long
@pytest.mark.timeout(2700)
def test_half_an_hour_of_mixed_load_leaves_a_server_as_large_and_as_right_as_before(
    tmp_path: Path, show: Callable[[object], None]
) -> None:
    command = [sys.executable, str(ROOT / "tests" / "support" / "soak.py"), "--minutes", "30"]
    done = subprocess.run(
        [*command, "--folder", str(tmp_path)],
        env=environment(tmp_path, {}),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    show(done.stdout)
    assert (done.returncode, _read(done.stdout)["faults"]) == (0, []), done.stderr


def _read(verdict: str) -> dict[str, Any]:
    """The verdict; raises AssertionError with what was said instead of it."""
    try:
        return dict(json.loads(verdict))
    except ValueError:
        raise AssertionError(verdict) from None
