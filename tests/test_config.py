"""Settings: which place wins, what each may be, and the sentence where one is wrong."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from config import SETTINGS, Config, Setting
from core.errors import ConfigError

Env = dict[str, str]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def load(home: Path, toml: str | bytes = "", env: Env | None = None) -> Config:
    """The settings of a home with this config.toml and these variables."""
    content = toml.encode() if isinstance(toml, str) else toml
    (home / "config.toml").write_bytes(content)
    return Config.load({"MNELO_HOME": str(home)} | (env or {}))


def refusal(home: Path, toml: str | bytes = "", env: Env | None = None) -> str:
    """The one line that says what is wrong."""
    with pytest.raises(ConfigError) as caught:
        load(home, toml, env)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    return text


# --- Which place wins ------------------------------------------------------------------


def test_a_variable_beats_config_toml_which_beats_the_default(home: Path) -> None:
    toml = "[server]\nport = 9001"
    assert load(home).server_port == 8086
    assert load(home, toml).server_port == 9001
    assert load(home, toml, {"MNELO_MEMORY_SERVER_PORT": "9002"}).server_port == 9002


def test_what_the_command_line_says_beats_both(home: Path) -> None:
    (home / "config.toml").write_text("[server]\nport = 9001")
    env = {"MNELO_HOME": str(home), "MNELO_MEMORY_SERVER_PORT": "9002"}
    assert Config.load(env, server_port=9003, server_host=None).server_port == 9003
    with pytest.raises(ConfigError, match=r"^Setting server\.port is 0; allowed: a whole number"):
        Config.load(env, server_port=0)


def test_a_program_that_overrides_an_unknown_setting_is_told_so() -> None:
    with pytest.raises(TypeError, match="no such setting: sever_port"):
        Config.load({}, sever_port=1)


def test_an_empty_variable_is_one_that_is_not_set(home: Path) -> None:
    env = {"MNELO_MEMORY_SERVER_PORT": "", "MNELO_MEMORY_CONFIG": "", "MNELO_MEMORY_DB_PATH": ""}
    loaded = load(home, "[server]\nport = 9001", env)
    assert (loaded.server_port, loaded.database_path) == (9001, home / "memory.db")


@pytest.mark.parametrize(
    "toml",
    [
        'timezone = "utc"\ndebug = true',
        '[main]\ntimezone = "utc"\ndebug = true',
        'debug = true\n[main]\ntimezone = "utc"',
    ],
)
def test_the_top_level_and_main_are_the_same_place(home: Path, toml: str) -> None:
    loaded = load(home, toml)
    assert (loaded.timezone, loaded.debug) == ("utc", True)


@pytest.mark.parametrize("head", ["", "[main]\n"])
def test_the_flat_embedder_keys_of_older_files_still_count(home: Path, head: str) -> None:
    loaded = load(home, head + 'embedder_model = "BAAI/bge-small-en-v1.5"\nembedder_dim = 384')
    assert (loaded.embedder_model, loaded.embedder_dim) == ("BAAI/bge-small-en-v1.5", 384)


def test_a_key_in_its_section_beats_its_older_form(home: Path) -> None:
    assert load(home, "embedder_dim = 384\n[embedder]\ndim = 512").embedder_dim == 512


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.key)
def test_each_setting_is_read_from_its_key_and_from_its_variables(
    home: Path, setting: Setting
) -> None:
    text, expected = GOOD[setting.key]
    name = next(name for name, each in SETTINGS.items() if each is setting)
    assert getattr(load(home), name) != expected  # else the rest would prove nothing
    section, _, key = setting.key.rpartition(".")
    toml = f"[{section or 'main'}]\n{key} = {text}"
    assert getattr(load(home, toml), name) == expected
    for variable in setting.variables:
        value = text if name in JSON_LISTS else re.sub(r'[\[\]"]', "", text)
        assert getattr(load(home, env={variable: value}), name) == expected


JSON_LISTS = {"timeline_context_separators"}
"""Settings whose variable is a list as JSON has it; others are separated by commas."""

GOOD: dict[str, tuple[str, Any]] = {
    "timezone": ('"Asia/Shanghai"', "Asia/Shanghai"),
    "warm_up_embedder": ("false", False),
    "debug": ("true", True),
    "database.path": ('"/srv/one.db"', Path("/srv/one.db")),
    "database.busy_seconds": ("0.5", 0.5),
    "database.synchronous": ('"full"', "FULL"),
    "database.cache_mb": ("8", 8),
    "embedder.model": ('"none"', "none"),
    "embedder.dim": ("512", 512),
    "embedder.threads": ("2", 2),
    "embedder.wait_seconds": ("0", 0.0),
    "embedder.cache_dir": ('"/srv/models"', Path("/srv/models")),
    "server.host": ('"::1"', "::1"),
    "server.port": ("65535", 65535),
    "server.allow_remote": ("true", True),
    "auth.token_file": ('"/srv/token"', Path("/srv/token")),
    "recall.lanes": ('["meta", "vector"]', ("vector", "meta")),
    "recall.concurrent": ("false", "off"),
    "recall.rrf_k": ("10", 10),
    "recall.lane_depth": ("40", 40),
    "recall.vector_weight": ("0.5", 0.5),
    "recall.graph_weight": ("0", 0.0),
    "recall.meta_weight": ("10", 10.0),
    "recall.entity_weight": ("3", 3.0),
    "recall.rerank": ('"none"', "none"),
    "recall.stock_boost": ("0", 0.0),
    "recall.placeholders": ('["Ping", "hello there"]', ("Ping", "hello there")),
    "limits.content_bytes": ("1", 1),
    "limits.query_bytes": ("1", 1),
    "limits.top_k": ("1000", 1000),
    "limits.hops": ("10", 10),
    "limits.graph_nodes": ("10000", 10000),
    "limits.fan_out": ("1", 1),
    "limits.request_bytes": ("1024", 1024),
    "keeper.idle_seconds": ("0.5", 0.5),
    "keeper.interval_seconds": ("5", 5.0),
    "keeper.log_rows": ("10", 10),
    "keeper.audit_rows": ("10", 10),
    "keeper.purge_days": ("30", 30.0),
    "backup.folder": ('"/srv/backups"', Path("/srv/backups")),
    "backup.every_hours": ("0.5", 0.5),
    "backup.keep": ("1", 1),
    "backup.compress": ("true", True),
    "guard.mode": ('"Redact"', "redact"),
    "guard.instructions": ('"Refuse"', "refuse"),
    "identity.rules": (
        r"{ lives_in = ['live in (\w+)'], zone = 'in (\S+)' }",
        (("lives_in", (r"live in (\w+)",)), ("zone", (r"in (\S+)",))),
    ),
    "recall.cue_weight": ("2", 2.0),
    "cues.extractor": ('"spacy"', "spacy"),
    "cues.userdict": ('"/srv/terms.txt"', Path("/srv/terms.txt")),
    "cues.pause_minutes": ("0.5", 0.5),
    "cues.associative": ("false", False),
    "cues.discourse": ("false", False),
    "server.toolsets": ('["timeline", "core"]', ("core", "timeline")),
    "timeline.score_threshold": ("0.3", 0.3),
    "timeline.group_k": ("3", 3),
    "timeline.group_threshold": ("0.6", 0.6),
    "timeline.group_seconds": ("5", 5.0),
    "timeline.dedup_enable": ("true", True),
    "timeline.dedup_threshold": ("0.95", 0.95),
    "timeline.daemon_interval": ("60", 60.0),
    "timeline.default_ttl_days": ("7", 7.0),
    "timeline.chunk_size": ("8000", 8000),
    "timeline.context_separators": (r'["\n\n", ";"]', ("\n\n", ";")),
}
"""A value of each setting that is not its default, as TOML, and what it is then."""


@pytest.mark.parametrize(
    ("word", "flag"),
    [
        *((word, True) for word in ("true", "True", "1", "yes", "ON")),
        *((word, False) for word in ("false", "FALSE", "0", "no", "off")),
    ],
)
def test_a_flag_may_be_said_in_words_and_false_is_false(home: Path, word: str, flag: bool) -> None:
    assert load(home, env={"MNELO_MEMORY_DEBUG": word}).debug is flag
    assert load(home, f'debug = "{word}"').debug is flag


@pytest.mark.parametrize(
    ("value", "read"),
    [("true", "on"), ("ON", "on"), ("0", "off"), ("off", "off"), ("Auto", "auto")],
)
def test_whether_lanes_run_at_once_is_a_flag_or_auto(home: Path, value: str, read: str) -> None:
    env = {"MNELO_MEMORY_RECALL_CONCURRENT": value}
    assert load(home, env=env).recall_concurrent == read
    assert load(home, f'[recall]\nconcurrent = "{value}"').recall_concurrent == read
    assert Config.load({}, recall_concurrent=True).recall_concurrent == "on"
    assert load(home).recall_concurrent == "auto"


def test_lists_in_variables_are_split_at_commas(home: Path) -> None:
    env = {
        "MNELO_MEMORY_RECALL_LANES": " entity , graph,",
        "MNELO_MEMORY_RECALL_PLACEHOLDERS": "ping,are you there",
    }
    loaded = load(home, env=env)
    assert loaded.recall_lanes == ("graph", "entity")
    assert loaded.recall_placeholders == ("ping", "are you there")
    assert load(home, "[recall]\nplaceholders = []").recall_placeholders == ()


def test_separators_in_a_variable_are_json_with_line_breaks_as_shells_pass_them(home: Path) -> None:
    for text in (r'["\n## ", "\t"]', r'["\\n## ", "\\t"]'):
        loaded = load(home, env={"VELLUM_CONTEXT_SEPARATORS": text})
        assert loaded.timeline_context_separators == ("\n## ", "\t")


def test_settings_know_which_of_them_somebody_set(home: Path) -> None:
    env = {"VELLUM_DEDUP_THRESHOLD": "0.9", "MNELO_MEMORY_DEBUG": ""}
    loaded = Config.load({"MNELO_HOME": str(home)} | env, server_port=9000)
    assert loaded.given == {"timeline_dedup_threshold", "server_port"}
    assert load(home, "[server]\nhost = '::1'").given >= {"server_host"}


# --- Where things lie ------------------------------------------------------------------


def test_home_holds_the_database_and_config_toml(home: Path) -> None:
    (home / "config.toml").write_text("debug = true")
    loaded = Config.load({"MNELO_HOME": str(home)})
    assert (loaded.home, loaded.database_path) == (home, home / "memory.db")
    assert loaded.debug


def test_home_is_in_the_persons_folder_unless_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home))
    default = Config.load({})
    assert default.database_path == home / ".hermes" / "memory" / "memory.db"
    assert Config.load({"MNELO_MEMORY_DIR": str(home)}).home == home
    both = {"MNELO_HOME": str(home / "new"), "MNELO_MEMORY_DIR": str(home / "old")}
    assert Config.load(both).home == home / "new"
    assert Config.load({"MNELO_HOME": "~/here"}).home == home / "here"
    monkeypatch.chdir(home)
    assert Config.load({"MNELO_HOME": "here"}).home == home / "here"


def test_the_database_file_has_two_variables(home: Path) -> None:
    assert load(home, env={"MNELO_MEMORY_DB_PATH": "/a.db"}).database_path == Path("/a.db")
    both = {"MNELO_MEMORY_DB_PATH": "/a.db", "MNELO_MEMORY_DATABASE_PATH": "/b.db"}
    assert load(home, env=both).database_path == Path("/b.db")


def test_another_config_file_may_be_named(home: Path) -> None:
    (home / "other.toml").write_text("debug = true")
    env = {"MNELO_MEMORY_CONFIG": str(home / "other.toml")}
    loaded = load(home, "debug = false", env)
    assert loaded.debug
    assert loaded.database_path == home / "memory.db"


def test_a_config_file_that_is_named_must_exist(home: Path) -> None:
    missing = home / "missing.toml"
    text = refusal(home, env={"MNELO_MEMORY_CONFIG": str(missing)})
    assert text == f"MNELO_MEMORY_CONFIG names {missing}, which does not exist."


@pytest.mark.parametrize("variable", ["MNELO_HOME", "MNELO_MEMORY_DIR", "MNELO_MEMORY_CONFIG"])
def test_a_folder_of_nobody_is_refused_by_its_variable(home: Path, variable: str) -> None:
    # Python raises a bare RuntimeError for it, which ended the server with a traceback.
    with pytest.raises(ConfigError) as caught:
        Config.load({variable: "~nobody-of-that-name/x"})
    assert str(caught.value) == f"Setting {variable} is '~nobody-of-that-name/x'; allowed: a path."


# --- What is refused -------------------------------------------------------------------

PATHS = ["5", '""', '" "', '"~nobody-of-that-name/x"', '"a\\u0000b"', "true", "[]"]
WEIGHTS = ["-0.1", "10.1", "nan", "inf", "true", '"much"']
SHARES = ["-0.1", "1.1", "nan", "true", '"much"']
FLAGS = ['"maybe"', '""', "2", "1.0", "[]", "2026-01-01"]
COUNTS = ['"many"', '""', "1.5", "true", "nan", "inf", "[]", "-1"]

WRONG: dict[str, list[str]] = {
    "timezone": ['"Mars/Olympus"', '""', "8", '"../../etc/passwd"', '"Asia"', '"+08:00"'],
    "warm_up_embedder": FLAGS,
    "debug": FLAGS,
    "database.path": PATHS,
    "database.busy_seconds": ["0", "601", "true", '"soon"', "nan", "inf", "[]"],
    "database.synchronous": ['"OFF"', '"extra"', "1", '""'],
    "database.cache_mb": [*COUNTS, "7", "4097"],
    "embedder.model": ['""', '" "', "5", "[]", "false"],
    "embedder.dim": [*COUNTS, "8193"],
    "embedder.threads": [*COUNTS, "0", "65"],
    "embedder.wait_seconds": ["-0.1", "61", "true", '"soon"', "nan"],
    "embedder.cache_dir": PATHS,
    "server.host": ['""', '"a\\u0000b"', "127", "[]"],
    "server.port": [*COUNTS, "0", "65536"],
    "server.allow_remote": FLAGS,
    "auth.token_file": PATHS,
    "recall.lanes": ['"vectors"', '["vector", "text"]', "[]", "[1]", "4", "true", '[["meta"]]'],
    "recall.concurrent": FLAGS,
    "recall.rrf_k": [*COUNTS, "0", "1001"],
    "recall.lane_depth": [*COUNTS, "0", "1001"],
    "recall.vector_weight": WEIGHTS,
    "recall.graph_weight": WEIGHTS,
    "recall.meta_weight": WEIGHTS,
    "recall.entity_weight": WEIGHTS,
    "recall.rerank": ['"rrf"', "true", '""', "1"],
    "recall.stock_boost": ["-0.1", "1.1", "true", '"much"', "nan"],
    "recall.placeholders": ["[1]", "5", "true", '[["x"]]', "{a = 1}"],
    "limits.content_bytes": [*COUNTS, "0", "16777217"],
    "limits.query_bytes": [*COUNTS, "0", "65537"],
    "limits.top_k": [*COUNTS, "0", "1001"],
    "limits.hops": [*COUNTS, "0", "11"],
    "limits.graph_nodes": [*COUNTS, "0", "10001"],
    "limits.fan_out": [*COUNTS, "0", "10001"],
    "limits.request_bytes": [*COUNTS, "1023", "268435457"],
    "keeper.idle_seconds": ["nan", "inf", "0.09", "3601", '"soon"', "true"],
    "keeper.interval_seconds": ["nan", "inf", "0.9", "86401", '"soon"', "true"],
    "keeper.log_rows": [*COUNTS, "0", "2147483649"],
    "keeper.audit_rows": [*COUNTS, "0", "2147483649"],
    "keeper.purge_days": ["nan", "inf", "-1", "36501", '"soon"', "true"],
    "backup.folder": PATHS,
    "backup.every_hours": ["nan", "inf", "-1", "8761", '"daily"', "true"],
    "backup.keep": [*COUNTS, "0", "10001"],
    "backup.compress": FLAGS,
    "guard.mode": ['"block"', '""', "true", "1", "[]"],
    "guard.instructions": ['"off"', '""', "true", "1", "[]"],
    "identity.rules": ['"x"', "3", "{ a = ['('] }", "{ a = [] }", "{ a = [1] }", "{ a = '' }"],
    "recall.cue_weight": WEIGHTS,
    "cues.extractor": ['"nltk"', '""', "true", "1", "[]"],
    "cues.userdict": PATHS,
    "cues.pause_minutes": ["nan", "inf", "-1", "1000001", '"soon"', "true"],
    "cues.associative": FLAGS,
    "cues.discourse": FLAGS,
    "server.toolsets": ['"all"', "[]", '["core", "vellum"]', "1", "true", '[["core"]]'],
    "timeline.score_threshold": SHARES,
    "timeline.group_k": [*COUNTS, "1", "11"],
    "timeline.group_threshold": SHARES,
    "timeline.group_seconds": ["0", "3601", "nan", "true", '"soon"'],
    "timeline.dedup_enable": FLAGS,
    "timeline.dedup_threshold": SHARES,
    "timeline.daemon_interval": ["0.9", "86401", "nan", "true", '"soon"'],
    "timeline.default_ttl_days": ["0", "36501", "nan", "true", '"soon"'],
    "timeline.chunk_size": [*COUNTS, "0", "8001"],
    "timeline.context_separators": ['"\\n"', '"[1]"', "[1]", '[""]', "{a = 1}", "true", '"x"'],
}


@pytest.mark.parametrize("key", WRONG)
def test_wrong_values_are_refused_by_key_with_what_is_allowed(home: Path, key: str) -> None:
    section, _, last = key.rpartition(".")
    setting = next(each for each in SETTINGS.values() if each.key == key)
    for value in WRONG[key]:
        text = refusal(home, f"[{section or 'main'}]\n{last} = {value}")
        assert text.startswith(f"Setting {key} ({home / 'config.toml'}) is "), value
        assert text.endswith(f"; allowed: {setting.allowed}."), value


VARIABLES = [
    (variable, value.strip('"'))
    for setting in SETTINGS.values()
    for variable in setting.variables
    for value in WRONG[setting.key]
    if value.startswith('"') and value.strip('"') and "\\" not in value
]


def test_a_wrong_variable_is_refused_by_name_with_its_value(home: Path) -> None:
    assert len(VARIABLES) > 50
    for variable, value in VARIABLES:
        text = refusal(home, env={variable: value})
        assert text.startswith(f"Setting {variable} is {value!r}; allowed: ")


def test_every_setting_has_values_in_the_tables_above() -> None:
    keys = {setting.key for setting in SETTINGS.values()}
    assert keys == set(GOOD) == set(WRONG)


@pytest.mark.parametrize(
    ("toml", "key"),
    [
        ("prot = 1", "prot"),
        ("[server]\nprot = 1", "server.prot"),
        ("[main]\nprot = 1", "prot"),
        ("port = 9000", "port"),
        ("[serve]\nport = 9000", "serve.port"),
        ("[main.server]\nport = 9000", "server"),
        ("server = 9000", "server"),
        ("[[server]]\nport = 9000", "server"),
        ("main = 1", "main"),
        ("[server.extra]\nport = 1", "server.extra"),
        ('"" = 1', ""),
    ],
)
def test_an_unknown_key_is_refused_by_name(home: Path, toml: str, key: str) -> None:
    text = refusal(home, toml)
    assert text == (
        f"{home / 'config.toml'}: there is no setting {key}; config.toml.example lists them all."
    )


@pytest.mark.parametrize(
    "toml",
    [
        "port 8086",
        "[server",
        "a = 1\na = 2",
        b"debug = \xff",
        "debug = true".encode("utf-16"),
        "a = " + "[" * 10_000,
    ],
    ids=["no value", "open bracket", "twice", "latin-1", "utf-16", "deep"],
)
def test_a_broken_file_is_refused_by_its_path(home: Path, toml: str | bytes) -> None:
    text = refusal(home, toml)
    assert text.startswith(f"{home / 'config.toml'} cannot be read as TOML: ")


def test_a_folder_in_place_of_the_file_is_refused(home: Path) -> None:
    text_of = {"MNELO_MEMORY_CONFIG": str(home)}
    assert refusal(home, env=text_of).startswith(f"{home} cannot be read as TOML: ")


def test_a_byte_order_mark_is_no_part_of_the_first_key(home: Path) -> None:
    assert load(home, "debug = true".encode("utf-8-sig")).debug


def test_the_refusal_speaks_the_readers_language(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_LANG", "zh")
    assert refusal(home, "prot = 1") == (
        f"{home / 'config.toml'}：没有名为 prot 的设置；全部设置见 config.toml.example。"
    )


def test_settings_do_not_change_once_read(home: Path) -> None:
    loaded = load(home)
    with pytest.raises(dataclasses.FrozenInstanceError):
        loaded.debug = True  # type: ignore[misc]
    assert load(home) == loaded


def test_a_relative_path_lies_in_the_home_whatever_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "somewhere"
    env = {"MNELO_HOME": str(home), "MNELO_MEMORY_DB_PATH": "mine/memory.db"}
    assert Config.load(env).database_path == home / "mine" / "memory.db"
    assert Config.load(env, database_path="here.db").database_path == Path("here.db")
