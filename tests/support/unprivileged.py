"""Being somebody for whom a file's permissions count, also where tests run as root."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlite_vec

NOBODY = 65534


@contextmanager
def not_root() -> Iterator[None]:
    """Root may write everywhere: be nobody instead, until the block is left.

    Where only root may enter the folder of the packages, nobody can load vec0 from it. So it is
    loaded before and stays: a library that is in memory is found by its name, without the file.
    """
    if os.geteuid() != 0:
        yield
        return
    ctypes.CDLL(str(next(Path(sqlite_vec.loadable_path()).parent.glob("vec0.*"))))
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
