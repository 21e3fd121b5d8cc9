"""Settings: an environment variable beats config.toml, which beats the default.

`Config` is the whole list: each field has a key of config.toml, an environment variable, a
default and a rule. `Config.load` reads them once, checks them, and refuses a key that it does
not know, so that a misspelt setting is an error at start and not a surprise later.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from core import timestamps
from core.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

VERSION = "0.1.0"
ROOT = Path(__file__).resolve().parent
HOME = "~/.hermes/memory"

PLACEHOLDERS = (
    *("anything", "something", "test", "testing", "foo", "bar", "baz", "foobar", "foo bar"),
    *("placeholder", "dummy", "demo", "sample", "example", "hello world"),
    *("?", ".", "q", "x"),
)
"""Queries that agents send to try a tool out: 15 words and phrases, 4 single characters."""

Rules = tuple[tuple[str, tuple[str, ...]], ...]  # names, each with its regular expressions

TOOLSETS = ("core", "timeline")
SEPARATORS = ("\n## ", "\n```", "\n\n", "\n", " ")
"""Where a context may be cut, the best first. The first means headings of any level, the second ~~~
as well; list items are tried just before lines, and ends of sentences just before spaces."""

LANES = ("vector", "graph", "meta", "entity")
ALL_LANES = (*LANES, "cue")  # with the one that is off unless it is asked for

MAX_SHOWN = 100  # characters of a wrong value that are shown
MAX_SEPARATORS = 100  # each is looked for in the whole of a context


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its place in config.toml, its variables, and what it may be."""

    key: str
    parse: Callable[[Any], Any]
    allowed: str
    legacy: str = ""  # the key of older files that means the same
    also: tuple[str, ...] = ()  # variables that mean the same, after the one made from the key

    @property
    def variables(self) -> tuple[str, ...]:
        """`server.port` is MNELO_MEMORY_SERVER_PORT; the first that is set counts."""
        return ("MNELO_MEMORY_" + self.key.replace(".", "_").upper(), *self.also)


def _setting(
    key: str,
    default: Any,
    parse: Callable[[Any], Any],
    allowed: str,
    *,
    legacy: str = "",
    also: tuple[str, ...] = (),
) -> Any:
    setting = Setting(key, parse, allowed, legacy, also)
    return field(default=default, metadata={"setting": setting})


# --- Rules: each takes what TOML or a variable holds and returns the value, or ValueError ---


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError
    return value.strip()


def _path(value: Any) -> Path:
    try:
        return Path(_text(value)).expanduser()
    except RuntimeError as error:  # ~name, and nobody has that name
        raise ValueError from error


def _zone(value: Any) -> str:
    name = _text(value)
    try:
        timestamps.zone(name)
    except (KeyError, OSError) as error:
        raise ValueError from error
    return name


def _flag(value: Any) -> bool:
    words = {"true": True, "1": True, "yes": True, "on": True}
    words |= {"false": False, "0": False, "no": False, "off": False}
    if str(value).lower() not in words:
        raise ValueError
    return words[str(value).lower()]


def _auto_or_flag(value: Any) -> str:
    """`auto`, `on` or `off`."""
    return "auto" if str(value).lower() == "auto" else "on" if _flag(value) else "off"


def _whole(low: int, high: int) -> tuple[Callable[[Any], int], str]:
    def parse(value: Any) -> int:
        if isinstance(value, bool) or not low <= int(str(value)) <= high:
            raise ValueError
        return int(str(value))

    return parse, f"a whole number from {low} to {high}"


def _number(low: float, high: float) -> tuple[Callable[[Any], float], str]:
    def parse(value: Any) -> float:
        # A NaN fails every comparison, so it is refused here as well.
        if isinstance(value, bool) or not low <= float(value) <= high:
            raise ValueError
        return float(value)

    return parse, f"a number from {low:g} to {high:g}"


def _choice(*options: str) -> tuple[Callable[[Any], str], str]:
    def parse(value: Any) -> str:
        for option in options:
            if _text(value).lower() == option.lower():
                return option
        raise ValueError

    return parse, f"{', '.join(options[:-1])} or {options[-1]}"


def _words(value: Any) -> tuple[str, ...]:
    """A list of TOML, or in a variable words separated by commas."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ValueError
    return tuple(item.strip() for item in items if item.strip())


def _some_of(options: tuple[str, ...]) -> tuple[Callable[[Any], tuple[str, ...]], str]:
    """One or more of the options, in the order that these have."""

    def parse(value: Any) -> tuple[str, ...]:
        named = _words(value)
        if not named or not set(named) <= set(options):
            raise ValueError
        return tuple(option for option in options if option in named)

    return parse, "a list of " + ", ".join(options)


def _separators(value: Any) -> tuple[str, ...]:
    """A list of texts; in a variable as JSON, in which `\\\\n` is a line break as well."""
    items = json.loads(value) if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) and item for item in items):
        raise ValueError
    if len(items) > MAX_SEPARATORS:
        raise ValueError
    "".join(items).encode()  # a lone surrogate is in no text
    return tuple(item.replace("\\n", "\n").replace("\\t", "\t") for item in items)


def _rules(value: Any) -> Rules:
    """A table of names with one regular expression or a list; in a variable as TOML writes it."""
    try:
        table = tomllib.loads(f"rules = {value}")["rules"] if isinstance(value, str) else value
    except tomllib.TOMLDecodeError as error:
        raise ValueError from error
    if not isinstance(table, dict) or not all(table.values()):
        raise ValueError
    listed = {name: [each] if isinstance(each, str) else each for name, each in table.items()}
    return tuple((_text(name), tuple(map(_pattern, listed[name]))) for name in sorted(listed))


def _pattern(value: Any) -> str:
    try:
        re.compile(_text(value))
    except re.error as error:
        raise ValueError from error
    return str(value)


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting, read and checked once; `server_port` is [server] port in config.toml."""

    home: Path
    timezone: str = _setting(
        "timezone", "local", _zone, "local, utc or a zone such as Asia/Shanghai"
    )
    warm_up_embedder: bool = _setting("warm_up_embedder", True, _flag, "true or false")
    debug: bool = _setting("debug", False, _flag, "true or false")
    database_path: Path = _setting(
        "database.path",
        Path("memory.db"),
        _path,
        "a file path",
        also=("MNELO_MEMORY_DB_PATH", "VELLUM_DB_PATH"),
    )
    database_busy_seconds: float = _setting("database.busy_seconds", 5.0, *_number(0.1, 600))
    database_synchronous: str = _setting(
        "database.synchronous", "NORMAL", *_choice("NORMAL", "FULL")
    )
    database_cache_mb: int = _setting("database.cache_mb", 64, *_whole(8, 4096))
    embedder_model: str = _setting(
        "embedder.model",
        "auto",
        _text,
        "auto, none, offline or a name",
        legacy="embedder_model",
        also=("VELLUM_TRANSFORMER_MODEL",),
    )
    embedder_dim: int = _setting("embedder.dim", 0, *_whole(0, 8192), legacy="embedder_dim")
    embedder_threads: int = _setting("embedder.threads", 1, *_whole(1, 64))
    embedder_wait_seconds: float = _setting("embedder.wait_seconds", 3.0, *_number(0, 60))
    embedder_cache_dir: Path | None = _setting("embedder.cache_dir", None, _path, "a folder path")
    server_host: str = _setting("server.host", "127.0.0.1", _text, "a host name or address")
    server_port: int = _setting("server.port", 8086, *_whole(1, 65535))
    server_allow_remote: bool = _setting("server.allow_remote", False, _flag, "true or false")
    server_toolsets: tuple[str, ...] = _setting("server.toolsets", ("core",), *_some_of(TOOLSETS))
    auth_token_file: Path | None = _setting("auth.token_file", None, _path, "a file path")
    recall_lanes: tuple[str, ...] = _setting("recall.lanes", LANES, *_some_of(ALL_LANES))
    recall_concurrent: str = _setting(
        "recall.concurrent", "auto", _auto_or_flag, "auto, true or false"
    )
    recall_rrf_k: int = _setting("recall.rrf_k", 60, *_whole(1, 1000))
    recall_lane_depth: int = _setting("recall.lane_depth", 200, *_whole(1, 1000))
    recall_vector_weight: float = _setting("recall.vector_weight", 1.0, *_number(0, 10))
    recall_graph_weight: float = _setting("recall.graph_weight", 0.5, *_number(0, 10))
    recall_meta_weight: float = _setting("recall.meta_weight", 2.0, *_number(0, 10))
    recall_entity_weight: float = _setting("recall.entity_weight", 0.5, *_number(0, 10))
    recall_cue_weight: float = _setting("recall.cue_weight", 1.0, *_number(0, 10))
    recall_rerank: str = _setting("recall.rerank", "evidence", *_choice("evidence", "none"))
    recall_stock_boost: float = _setting("recall.stock_boost", 0.05, *_number(0, 1))
    recall_placeholders: tuple[str, ...] = _setting(
        "recall.placeholders", PLACEHOLDERS, _words, "a list of words"
    )
    limits_content_bytes: int = _setting("limits.content_bytes", 65536, *_whole(1, 1 << 24))
    limits_query_bytes: int = _setting("limits.query_bytes", 4096, *_whole(1, 65536))
    limits_top_k: int = _setting("limits.top_k", 100, *_whole(1, 1000))
    limits_hops: int = _setting("limits.hops", 5, *_whole(1, 10))
    limits_graph_nodes: int = _setting("limits.graph_nodes", 1000, *_whole(1, 10000))
    limits_fan_out: int = _setting("limits.fan_out", 50, *_whole(1, 10000))
    limits_request_bytes: int = _setting("limits.request_bytes", 1 << 20, *_whole(1024, 1 << 28))
    keeper_idle_seconds: float = _setting("keeper.idle_seconds", 2.0, *_number(0.1, 3600))
    keeper_interval_seconds: float = _setting("keeper.interval_seconds", 60.0, *_number(1, 86400))
    keeper_log_rows: int = _setting("keeper.log_rows", 100_000, *_whole(1, 1 << 31))
    keeper_audit_rows: int = _setting("keeper.audit_rows", 1_000_000, *_whole(1, 1 << 31))
    keeper_purge_days: float = _setting("keeper.purge_days", 0.0, *_number(0, 36_500))
    backup_folder: Path = _setting("backup.folder", Path("backups"), _path, "a folder path")
    backup_every_hours: float = _setting("backup.every_hours", 0.0, *_number(0, 8760))
    backup_keep: int = _setting("backup.keep", 7, *_whole(1, 10_000))
    backup_compress: bool = _setting("backup.compress", False, _flag, "true or false")
    guard_mode: str = _setting("guard.mode", "warn", *_choice("warn", "redact", "refuse", "off"))
    guard_instructions: str = _setting(
        "guard.instructions", "mark", *_choice("warn", "mark", "refuse")
    )
    cues_extractor: str = _setting("cues.extractor", "light", *_choice("light", "spacy"))
    cues_userdict: Path | None = _setting("cues.userdict", None, _path, "a file path")
    cues_pause_minutes: float = _setting("cues.pause_minutes", 30.0, *_number(0, 1_000_000))
    cues_associative: bool = _setting("cues.associative", True, _flag, "true or false")
    cues_discourse: bool = _setting("cues.discourse", True, _flag, "true or false")

    identity_rules: Rules = _setting(
        "identity.rules", (), _rules, "a table of relations with lists of regular expressions"
    )

    timeline_score_threshold: float = _setting("timeline.score_threshold", 0.15, *_number(0, 1))
    timeline_group_k: int = _setting("timeline.group_k", 4, *_whole(2, 10))
    timeline_group_threshold: float = _setting("timeline.group_threshold", 0.45, *_number(0, 1))
    timeline_group_seconds: float = _setting("timeline.group_seconds", 20.0, *_number(0.1, 3600))
    timeline_dedup_enable: bool = _setting(
        "timeline.dedup_enable", False, _flag, "true or false", also=("VELLUM_DEDUP_ENABLE",)
    )
    timeline_dedup_threshold: float = _setting(
        "timeline.dedup_threshold", 0.9, *_number(0, 1), also=("VELLUM_DEDUP_THRESHOLD",)
    )
    timeline_daemon_interval: float = _setting(
        "timeline.daemon_interval", 1800.0, *_number(1, 86_400), also=("VELLUM_DAEMON_INTERVAL",)
    )
    timeline_default_ttl_days: float = _setting(
        "timeline.default_ttl_days",
        3.0,
        *_number(0.001, 36_500),
        also=("VELLUM_DEFAULT_TTL_DAYS",),
    )
    timeline_chunk_size: int = _setting(
        "timeline.chunk_size", 1800, *_whole(1, 8000), also=("VELLUM_CHUNK_SIZE",)
    )
    timeline_context_separators: tuple[str, ...] = _setting(
        "timeline.context_separators",
        SEPARATORS,
        _separators,
        f'a list of up to {MAX_SEPARATORS} texts such as ["\\n\\n", " "]',
        also=("VELLUM_CONTEXT_SEPARATORS",),
    )
    given: frozenset[str] = field(default=frozenset(), compare=False)
    """The names of the settings that somebody set, so that they are not just the default."""

    @classmethod
    def load(cls, env: Mapping[str, str] = os.environ, **overrides: Any) -> "Config":
        """Read the settings of `env` and config.toml; an override that is not None beats both.

        Raises ConfigError naming the key, its value and what is allowed.
        """
        if unknown := set(overrides) - set(SETTINGS):
            raise TypeError(f"no such setting: {', '.join(sorted(unknown))}")
        home = _named(env, "MNELO_HOME") or _named(env, "MNELO_MEMORY_DIR") or _path(HOME)
        home = home.absolute()
        named = _named(env, "MNELO_MEMORY_CONFIG")
        file = named or home / "config.toml"
        table = _read(file, required=named is not None)
        values: dict[str, Any] = {
            "database_path": home / "memory.db",
            "backup_folder": home / "backups",
        }
        given = set()
        for name, setting in SETTINGS.items():
            if overrides.get(name) is not None:
                values[name] = checked(setting, overrides[name], setting.key)
                given.add(name)
            elif found := _find(setting, env, table, file):
                value = checked(setting, *found)
                # A server and its clients start in different folders; the home is one.
                values[name] = home / value if isinstance(value, Path) else value
                given.add(name)
        return cls(home=home, given=frozenset(given), **values)


SETTINGS: dict[str, Setting] = {
    each.name: each.metadata["setting"] for each in fields(Config) if "setting" in each.metadata
}
"""Every setting by its name in Config."""


def _named(env: Mapping[str, str], variable: str) -> Path | None:
    """The path that a variable holds, if it is set."""
    value = env.get(variable)
    return checked(Setting("", _path, "a path"), value, variable) if value else None


def _find(
    setting: Setting, env: Mapping[str, str], table: dict[str, Any], file: Path
) -> tuple[Any, str] | None:
    """The value that was set, and where; a variable comes before config.toml."""
    for variable in setting.variables:
        if env.get(variable):
            return env[variable], variable
    for key in (setting.key, setting.legacy):
        if key and key in table:
            return table[key], f"{key} ({file})"
    return None


def checked(setting: Setting, value: Any, place: str) -> Any:
    """What a setting is with such a value; else ConfigError, which names the place."""
    try:
        return setting.parse(value)
    except (ValueError, TypeError, OverflowError, RecursionError):
        shown = value if isinstance(value, str) or not repr(value)[MAX_SHOWN:] else repr(value)
        if isinstance(shown, str) and shown[MAX_SHOWN:]:
            shown = shown[:MAX_SHOWN] + "..."
        raise ConfigError("config.wrong", key=place, value=shown, allowed=setting.allowed) from None


def _read(file: Path, *, required: bool) -> dict[str, Any]:
    """config.toml as one flat table of known keys; `[main]` and the top level are the same."""
    try:
        table = tomllib.loads(file.read_text("utf-8-sig"))
    except FileNotFoundError:
        if required:
            raise ConfigError("config.missing", file=file) from None
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError("config.unreadable", file=file, error=error) from None
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            prefix = "" if name == "main" else f"{name}."
            flat |= {prefix + key: inner for key, inner in value.items()}
        else:
            flat[name] = value
    known = {key for setting in SETTINGS.values() for key in (setting.key, setting.legacy)}
    if unknown := sorted(set(flat) - (known - {""})):
        raise ConfigError("config.unknown", file=file, key=unknown[0])
    return flat
