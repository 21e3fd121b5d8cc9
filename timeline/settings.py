"""The timeline's settings as they are in force: a variable, config.toml, the table, the default.

The table `config` of the database may be changed while a server runs, so it is read whenever the
settings are needed. A wrong value in it is reported and has no effect.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from access.validation import printable
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
    values = {name: getattr(config, f"timeline_{name}") for name in NAMES}
    wrong = []
    if unknown := printable(", ".join(sorted(table.keys() - set(NAMES)))[:MAX_KEYS_SHOWN]):
        known = ", ".join(NAMES)
        wrong.append(message("input.unknown", name=TABLE, unknown=unknown, allowed=known))
    for key, value in sorted(table.items()):
        name = f"timeline_{key}"
        if key in NAMES and name not in config.given:
            try:
                values[key] = checked(SETTINGS[name], value, f"{key} ({TABLE})")
            except ConfigError as error:
                wrong.append(str(error))
    return Settings(**values), wrong
