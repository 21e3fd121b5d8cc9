"""What a unit of systemd says, read back."""

import re


def words(line: str) -> list[str]:
    """The words of a unit's line, as systemd.syntax(7) reads them."""
    found = re.findall(r'"((?:\\.|[^"\\])*)"|(\S+)', line)
    return [re.sub(r"\\(.)", r"\1", one or other).replace("%%", "%") for one, other in found]


def setting(unit: bytes, name: str) -> list[str]:
    """The values of a unit's setting, as they stand."""
    return re.findall(rf"^{name}=(.*)$", unit.decode(), re.M)
