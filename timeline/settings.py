"""The timeline's settings as they are in force: a variable, config.toml, the table, the default.

The table `config` of the database may be changed while a server runs, so it is read whenever the
settings are needed. A wrong value in it is reported and has no effect.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from config import SETTINGS, Config, checked
from core.errors import ConfigError
from mnelo_locale import message

TABLE = "table config"
MAX_KEYS_SHOWN = 200  # characters of unknown keys that are shown


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of [timeline], by the same names."""

    score_threshold: float
    group_k: int
    group_threshold: float
    group_seconds: float
    dedup_enable: bool
    dedup_threshold: float
    daemon_interval: float
    default_ttl_days: float
    chunk_size: int
    context_separators: tuple[str, ...]


NAMES = tuple(each.name for each in fields(Settings))


def in_force(config: Config, table: Mapping[str, str]) -> tuple[Settings, list[str]]:
    """The settings, and a sentence for each wrong value of the table and one for its other keys."""
    values = {name: getattr(config, _of_config(name)) for name in NAMES}
    wrong = []
    if unknown := _printable(", ".join(sorted(table.keys() - set(NAMES)))):
        known = ", ".join(NAMES)
        wrong.append(message("input.unknown", name=TABLE, unknown=unknown, allowed=known))
    for key, value in sorted(table.items()):
        if key in NAMES and _of_config(key) not in config.given:
            setting = SETTINGS[_of_config(key)]
            try:
                values[key] = checked(setting, value, f"{key} ({TABLE})")
            except ConfigError as error:
                wrong.append(str(error))
    return Settings(**values), wrong


def _printable(keys: str) -> str:
    """So much of some keys as fits into a line."""
    return "".join(char if char.isprintable() else "\ufffd" for char in keys[:MAX_KEYS_SHOWN])


def _of_config(name: str) -> str:
    return f"timeline_{name}"
