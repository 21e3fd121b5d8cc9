"""What can be told of a database file before SQLite touches it."""

import os
from pathlib import Path

from errors import StoreError
from mnelo_locale import message


def refuse_unusable(path: Path) -> None:
    """Refuse by name what is no database of ours, before SQLite touches it; make the folder."""
    try:
        if path.is_dir():
            raise StoreError("store.folder", path=path)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Made here, so that nobody else may read what an agent remembers.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        with path.open("rb") as file:
            header = file.read(100)
    except OSError as error:
        raise StoreError("store.unreadable", path=path, error=error.strerror) from None
    if header and not header.startswith(b"SQLite format 3\x00"):
        raise StoreError("store.foreign", path=path)
    if header and _cut_short(path, header):
        raise StoreError("store.damaged", path=path, error=message("store.cut"))


def _cut_short(path: Path, header: bytes) -> bool:
    """Whether pages that the header counts are missing, with no log that could hold them."""
    wal = path.with_name(path.name + "-wal")
    if len(header) < 100 or (wal.exists() and wal.stat().st_size):
        return len(header) < 100
    page = int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    return path.stat().st_size < page * int.from_bytes(header[28:32], "big")
