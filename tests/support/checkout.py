"""What a checkout consists of: the rooms, and every file of code, as the tests look at them."""

from pathlib import Path

from config import ROOT

ROOMS = sorted(path.parent for path in ROOT.glob("*/__init__.py"))
"""The folders that are packages."""

FLAT = [ROOT, ROOT / "api", ROOT / "scripts"]
"""The folders whose modules are run or imported by their own names."""

CODE: list[Path] = sorted(
    [path for folder in FLAT for path in folder.glob("*.py")]
    + [path for room in ROOMS for path in room.rglob("*.py")]
)
"""Every file of the product's Python code, without the tests."""


def module_of(path: Path) -> str:
    """The name that a file of the product is imported by."""
    relative = path.relative_to(ROOT).with_suffix("")
    parts = relative.parts if path.parent not in FLAT else (path.stem,)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
