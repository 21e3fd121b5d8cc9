"""What each argument of each tool may be, and the line that names what is wrong with it.

The tables below say it by hand, so that a bound or a default that changes in the code has to
change here as well.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from access.validation import STRATEGIES, TARGETS, Contract, Schema, contract
from config import Config
from core.errors import InvalidInput

NAN, INFINITY = float("nan"), float("inf")
HUGE = 10**5000
"""More digits than Python agrees to write out."""

REQUIRED = object()
ZONE = "Asia/Shanghai"


@dataclass(frozen=True)
class Takes:
    """What one argument takes: values with what they are read as, and others with the reason."""

    good: list[tuple[Any, Any]]
    bad: list[tuple[Any, str]]
    default: Any = REQUIRED


@cache
def deep(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"in": value}
    return value


def refuse(says: str, *values: Any) -> list[tuple[Any, str]]:
    return [(value, says) for value in values]


def not_text(*others: Any) -> list[tuple[Any, str]]:
    return refuse("must be text, not ", 5.5, True, ["a"], {"a": 1}, *others)


def text(limit: int, default: Any = REQUIRED) -> Takes:
    kept = [" kept \n as it is ", "北门", "{}", "[1]", "null", "5", "\ue000", "a\x00b", "é" * 9]
    long = "é" * (limit // 2) + "x" * (1 + limit % 2)
    return Takes(
        good=[
            *((value, value) for value in kept),
            ("a" * limit, "a" * limit),
            ("\U0001fae9", "\U0001fae9"),  # an emoji that older Pythons have not heard of
            ("a\ud83d", "a\ufffd"),
            ("\udfff", "\ufffd"),
        ],
        bad=[
            *not_text(5),
            (long, f"is {limit + 1} bytes long; at most {limit} are allowed."),
            ("\u200b\u2060", "is blank; it needs some text."),
            ("\ufeff \x00", "is blank; it needs some text."),
        ],
        default=default,
    )


def name(limit: int, default: Any = REQUIRED) -> Takes:
    said = [(value, value) for value in ("C#", "O'Neil & Co", "team/blue", "北门", "a  b", "0")]
    return Takes(
        good=[*said, (" trimmed\u3000", "trimmed"), ("é" * limit, "é" * limit)],
        bad=[
            *not_text(5),
            ("é" * (limit + 1), f"is {limit + 1} characters long; at most {limit} are allowed."),
            *unprintable(),
        ],
        default=default,
    )


def unprintable() -> list[tuple[Any, str]]:
    hidden = ("a\n", "\na", "a\tb", "a\x00", "a\x7f", "a\u200bb", "a\u202eb", "a\u2028b", "a\ud800")
    return refuse("has a control or invisible character; only printable ones are allowed.", *hidden)


def identifier(default: Any = REQUIRED) -> Takes:
    ids = ("C#", "O'Neil & Co", "team/blue", "北门", "chunk_20260701T000000000Z_ab12", "ünï")
    return Takes(
        good=[
            *((value, value) for value in ids),
            ("  Blue   Heron ", "Blue Heron"),
            ("ｔｅａｍ／１", "team/1"),
            ("cafe\u0301", "café"),
            ("a\u3000\u00a0b", "a b"),
            (600089, "600089"),
            ("北" * 256, "北" * 256),
        ],
        bad=[
            *not_text(HUGE),
            ("a" * 257, "is 257 characters long; at most 256 are allowed."),
            ("\ufdfa" * 20, "is 360 characters long; at most 256 are allowed."),
            *unprintable(),
        ],
        default=default,
    )


def number(default: Any = REQUIRED) -> Takes:
    wrong = [-0.01, 1.01, NAN, INFINITY, -INFINITY, HUGE, True, False, [0.5], {"a": 1}]
    spelt = ["NaN", "Infinity", "1e999", "high", "0.5.1", "0,5", "½", "9" * 5000]
    good: list[Any] = [0, 1, 0.25, "0.5", " 1 ", "1e-3", "0"]
    return Takes(
        good=[(value, float(value)) for value in good],
        bad=refuse("must be a number from 0 to 1, not ", *wrong, *spelt),
        default=default,
    )


def integer(low: int, high: int, default: Any = REQUIRED) -> Takes:
    wrong = [low - 1, high + 1, low + 0.5, NAN, INFINITY, HUGE, True, False, [low], {"a": low}]
    spelt = ["1.5", "many", "NaN", "0x1", str(high + 1), "9" * 5000, "\ud800", "a\u2028b\n"]
    good: list[Any] = [low, high, float(high), str(low), f" {high} ", f"{high}.0"]
    return Takes(
        good=[(value, int(float(value))) for value in good],
        bad=refuse(f"must be a whole number from {low} to {high}, not ", *wrong, *spelt),
        default=default,
    )


def flag(default: bool) -> Takes:
    return Takes(
        good=[(True, True), (False, False), ("true", True), (" False ", False), ("TRUE", True)],
        bad=refuse("must be true or false, not ", 0, 1, "yes", "0", [], {}, 1.5, NAN),
        default=default,
    )


def choice(options: tuple[str, ...], default: str) -> Takes:
    wrong = [options[0].upper(), options[0] + " ", "all", 5, True, list(options), {}]
    return Takes(
        good=[(option, option) for option in options],
        bad=refuse(f"must be one of {', '.join(options)}, not ", *wrong),
        default=default,
    )


def moment(bare: str) -> Takes:
    """A time; a bare 2026-07-01 means `bare`, in the zone of the settings."""
    wrong = ["next March", "2026-13-01", "2026-02-30", "now", 1767225600, True, [], {}, NAN]
    return Takes(
        good=[
            ("2026-07-01", bare),
            ("2026-07-01T10:00", "2026-07-01T02:00:00.000Z"),
            ("2026-07-01T10:00:00.1239Z", "2026-07-01T10:00:00.123Z"),
            ("2026-07-01T10:00:00+02:00", "2026-07-01T08:00:00.000Z"),
        ],
        bad=refuse("must be an ISO 8601 time such as 2026-07-01 or ", *wrong),
        default=None,
    )


START, LAST, END = (
    *("2026-06-30T16:00:00.000Z", "2026-07-01T15:59:59.999Z", "2026-07-01T16:00:00.000Z"),
)


def names(default: Any) -> Takes:
    return Takes(
        good=[
            ([], []),
            (["a", " b ", "北门"], ["a", "b", "北门"]),
            (("a",), ["a"]),
            ('["a", "b"]', ["a", "b"]),
            ("[]", []),
            (["x"] * 200, ["x"] * 200),
        ],
        bad=[
            *refuse("must be a list, not ", "a,b", '"a"', "{}", {}, 5, True, NAN),
            (["x"] * 201, "has 201 items; at most 200 are allowed."),
            (["a", 5], "[1] must be text, not 5."),
            ([None], "[0] must be text, not null."),
            ([["a"]], '[0] must be text, not ["a"].'),
            ([""], "[0] is blank; it needs some text."),
            (["a\n"], "[0] has a control or invisible character"),
            (["x" * 201], "[0] is 201 characters long; at most 200 are allowed."),
            ("[1]", "[0] must be text, not 1."),
        ],
        default=default,
    )


def properties(default: Any) -> Takes:
    free = {"a": [1, {"b": None}], "北": "门", "": 0.5}
    return Takes(
        good=[
            ({}, {}),
            (free, free),
            (json.dumps(free), free),
            ({1: 2}, {"1": 2}),
            ({"a": "\ud800"}, {"a": "\ufffd"}),
            (deep(100), deep(100)),
            ({"a": "x" * 16375}, {"a": "x" * 16375}),
        ],
        bad=[
            *refuse("must be an object, not ", [], "[]", "text", 5, True, [[1]]),
            *refuse(
                "must be plain JSON: no NaN, no infinity, not too deep.",
                *({"a": NAN}, {"a": [INFINITY]}, '{"a": NaN}', '{"a": -Infinity}'),
                *({"a": object()}, {(1, 2): 3}, {"a": HUGE}, deep(101), deep(100_000)),
                json.dumps(deep(400)),
            ),
            ({"a": "é" * 8192}, "is 16393 bytes long; at most 16384 are allowed."),
        ],
        default=default,
    )


def objects(*, plain: bool, default: Any) -> Takes:
    """A list of objects, as a list; what each may hold is in the tables of PARTS."""
    return Takes(
        good=[([], []), ("[]", []), ((), [])],
        bad=[
            *refuse("must be a list, not ", "a", "{}", {"id": "a"}, 5, True),
            *refuse("[0] must be an object, not ", [5], [None], [True], [["a"]]),
            *([] if plain else [(["a"], '[0] must be an object, not "a".')]),
            ([{}], "[0].id is missing." if plain else "[0].source_id is missing."),
            ([{"x": 1}], "[0] does not know x; allowed: "),
        ],
        default=default,
    )


RELATION: dict[str, Takes] = {
    "source_id": identifier(),
    "target_id": identifier(),
    "relation": name(128),
    "weight": number(1.0),
    "valid_from": moment(START),
    "valid_until": moment(END),
    "evidence_chunk_id": identifier(None),
    "properties": properties({}),
}
ENTITY: dict[str, Takes] = {
    "id": identifier(),
    "kind": name(64, None),
    "name": name(200, None),
    "summary": text(4000, None),
    "aliases": names([]),
    "properties": properties({}),
}
FILTERS: dict[str, Takes] = {
    "source": name(200, None),
    "kind": name(64, None),
    "tag": name(200, None),
    "session_id": name(200, None),
    "time_from": moment(START),
    "time_to": moment(LAST),
    "min_importance": number(None),
}
TOOLS: dict[str, dict[str, Takes]] = {
    "memory_remember": {
        "content": text(65536),
        "source": name(200, "manual"),
        "importance": number(0.5),
        "entities": objects(plain=True, default=[]),
        "relations": objects(plain=False, default=[]),
        "tags": names([]),
        "session_id": name(200, "default"),
        "timestamp": moment(START),
    },
    "memory_recall": {
        "query": text(4096),
        "top_k": integer(1, 100, 5),
        "graph_hops": integer(0, 5, 2),
        "filters": Takes(
            good=[({}, dict.fromkeys(FILTERS)), ("{}", dict.fromkeys(FILTERS))],
            bad=[
                *refuse("must be an object, not ", [], "[]", "kind", 5, True),
                ({"knid": "stock"}, "does not know knid; allowed: source, kind, tag, "),
            ],
            default={},
        ),
        "strategy": choice(STRATEGIES, "rrf"),
        "asof": moment(LAST),
        "explain": flag(False),
        "max_tokens": integer(0, 1_000_000, 8000),
    },
    "memory_relate": RELATION,
    "memory_forget": {
        "target_id": identifier(),
        "target_kind": choice(("chunk", "entity", "relation"), "chunk"),
        "reason": name(500, "outdated"),
        "cascade": flag(True),
    },
    "memory_update": {
        "old_id": identifier(),
        "new_content": text(65536, None),
        "reason": name(500, "updated"),
        "new_importance": number(None),
        "new_properties": properties({}),
    },
    "memory_graph_query": {
        "start_node": identifier(),
        "max_hops": integer(0, 5, 3),
        "edge_types": names([]),
        "asof": moment(LAST),
        "limit": integer(1, 1000, 200),
    },
    "memory_stats": {},
}
PARTS: dict[tuple[str, str], dict[str, Takes]] = {
    ("memory_remember", "entities"): ENTITY,
    ("memory_remember", "relations"): RELATION,
    ("memory_recall", "filters"): FILTERS,
}
"""The arguments that are made of named parts."""

LEAST: dict[str, dict[str, Any]] = {
    "memory_remember": {"content": "x"},
    "memory_recall": {"query": "x"},
    "memory_relate": {"source_id": "a", "target_id": "b", "relation": "knows"},
    "memory_forget": {"target_id": "a"},
    "memory_update": {"old_id": "a"},
    "memory_graph_query": {"start_node": "a"},
    "memory_stats": {},
}
"""The fewest arguments that each tool takes."""
LEAST_PARTS: dict[str, dict[str, Any]] = {
    "entities": {"id": "a"},
    "relations": LEAST["memory_relate"],
    "filters": {},
}


@dataclass(frozen=True)
class Place:
    """One argument of one tool, or a part of one."""

    tool: str
    argument: str
    part: str
    takes: Takes

    @property
    def listed(self) -> bool:
        return self.argument in ("entities", "relations")

    @property
    def path(self) -> str:
        whole = f"{self.argument}[0]" if self.part and self.listed else self.argument
        return f"{whole}.{self.part}" if self.part else whole

    def arguments(self, value: Any) -> dict[str, Any]:
        """As few arguments as can be, and this value in its place."""
        if not self.part:
            return LEAST[self.tool] | {self.argument: value}
        whole = LEAST_PARTS[self.argument] | {self.part: value}
        return LEAST[self.tool] | {self.argument: [whole] if self.listed else whole}

    def find(self, read: dict[str, Any]) -> Any:
        """What was read in its place."""
        whole = read[self.argument]
        if not self.part:
            return whole
        return (whole[0] if self.listed else whole)[self.part]


PLACES = [
    *(
        Place(tool, argument, "", takes)
        for tool in TOOLS
        for argument, takes in TOOLS[tool].items()
    ),
    *(
        Place(tool, argument, part, takes)
        for (tool, argument), parts in PARTS.items()
        for part, takes in parts.items()
    ),
]
each_place = pytest.mark.parametrize(
    "place", PLACES, ids=[f"{place.tool}-{place.path}" for place in PLACES]
)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Contract:
    home = str(tmp_path_factory.mktemp("home"))
    return contract(Config.load({"MNELO_HOME": home, "MNELO_MEMORY_TIMEZONE": ZONE}))


def refusal(tools: Contract, tool: str, arguments: dict[str, Any]) -> str:
    """The one printable line with which the arguments are refused."""
    with pytest.raises(InvalidInput) as caught:
        tools.read(tool, arguments)
    sentence = str(caught.value)
    assert sentence.isprintable()
    assert len(sentence) < 400
    return sentence


# --- Each argument ---------------------------------------------------------------------


def test_the_tables_know_every_argument_of_every_tool(tools: Contract) -> None:
    assert {tool: list(fields.fields) for tool, fields in tools.tools.items()} == {
        tool: list(arguments) for tool, arguments in TOOLS.items()
    }
    schema = {tool: tools.schema(tool)["properties"] for tool in TOOLS}
    for (tool, argument), parts in PARTS.items():
        whole = schema[tool][argument]
        assert list(whole.get("items", whole)["properties"]) == list(parts)
    lanes = ("vector", "graph", "meta", "entity", "cue")
    assert list(STRATEGIES) == ["rrf", *(f"{lane}_only" for lane in lanes)]
    assert TARGETS == ("chunk", "entity", "relation")


@each_place
def test_values_are_read_as_they_were_meant(tools: Contract, place: Place) -> None:
    for value, expected in place.takes.good:
        found = place.find(tools.read(place.tool, place.arguments(value)))
        assert found == expected
        assert type(found) is type(expected)


@each_place
def test_a_wrong_value_is_refused_by_name_with_what_is_allowed(
    tools: Contract, place: Place
) -> None:
    for value, says in place.takes.bad:
        sentence = refusal(tools, place.tool, place.arguments(value))
        between = "" if says.startswith("[") else " "
        assert sentence.startswith(place.path + between + says)


@each_place
def test_nothing_means_the_default_or_is_asked_for(tools: Contract, place: Place) -> None:
    for nothing in (None, "", " \n"):
        arguments = place.arguments(nothing)
        if place.takes.default is not REQUIRED:
            assert place.find(tools.read(place.tool, arguments)) == place.takes.default
            continue
        sentence = refusal(tools, place.tool, arguments)
        reasons = ("is missing.",) if nothing is None else ("is blank;", "has a control")
        assert sentence.removeprefix(f"{place.path} ").startswith(reasons)


@pytest.mark.parametrize("tool", TOOLS)
def test_what_is_left_out_has_its_default(tools: Contract, tool: str) -> None:
    read = tools.read(tool, LEAST[tool])
    assert read == LEAST[tool] | {
        argument: takes.default
        for argument, takes in TOOLS[tool].items()
        if takes.default is not REQUIRED
    }


@pytest.mark.parametrize(
    ("tool", "argument"), [(tool, argument) for tool in TOOLS for argument in LEAST[tool]]
)
def test_what_a_tool_cannot_do_without_is_asked_for_by_name(
    tools: Contract, tool: str, argument: str
) -> None:
    rest = {key: value for key, value in LEAST[tool].items() if key != argument}
    assert refusal(tools, tool, rest) == f"{argument} is missing."
    with pytest.raises(InvalidInput, match=rf"^{argument} is missing\.$"):
        tools.accept(tool, rest)


def test_defaults_are_not_shared_between_calls(tools: Contract) -> None:
    tools.read("memory_remember", LEAST["memory_remember"])["tags"].append("left over")
    assert tools.read("memory_remember", LEAST["memory_remember"])["tags"] == []


# --- Unknown arguments -----------------------------------------------------------------


@pytest.mark.parametrize("tool", TOOLS)
def test_an_unknown_argument_is_refused_by_name(tools: Contract, tool: str) -> None:
    allowed = ", ".join(TOOLS[tool]) or "-"
    with pytest.raises(InvalidInput) as caught:
        tools.accept(tool, LEAST[tool] | {"topk": 3, "entitys": None})
    assert str(caught.value) == f"{tool} does not know entitys, topk; allowed: {allowed}."
    assert tools.accept(tool, LEAST[tool]) == LEAST[tool]


@pytest.mark.parametrize("unknown", ["a\nb", "a\ud800", "\u2028", "x" * 5000])
def test_an_unknown_name_cannot_break_the_line_that_quotes_it(
    tools: Contract, unknown: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        tools.accept("memory_stats", {unknown: 1})
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(("tool", "argument"), PARTS)
def test_an_unknown_part_is_refused_by_its_place(tools: Contract, tool: str, argument: str) -> None:
    listed = argument != "filters"
    part = {"knid": "stock"}
    sentence = refusal(tools, tool, LEAST[tool] | {argument: [part] if listed else part})
    where = f"{argument}[0]" if listed else argument
    allowed = ", ".join(PARTS[tool, argument])
    assert sentence == f"{where} does not know knid; allowed: {allowed}."


# --- Encodings -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        (["QLS", {"id": "北门"}], ["QLS", "北门"]),
        ('["QLS", {"id": "北门"}]', ["QLS", "北门"]),
        (['{"id": "QLS", "kind": "team"}'], ["QLS"]),
        (["600089", "[1]", "null", '"x"', "{half"], ["600089", "[1]", "null", '"x"', "{half"]),
        ([" ａ  b "], ["a b"]),
    ],
)
def test_an_entity_may_be_just_its_id(tools: Contract, given: Any, ids: list[str]) -> None:
    read = tools.read("memory_remember", {"content": "x", "entities": given})
    assert [entity["id"] for entity in read["entities"]] == ids


@pytest.mark.parametrize("bare", ["", "  ", "a\n"])
def test_an_entity_without_an_id_is_refused_by_its_place(tools: Contract, bare: str) -> None:
    arguments = {"content": "x", "entities": ["QLS", bare]}
    assert refusal(tools, "memory_remember", arguments).startswith("entities[1].id ")


def test_objects_and_their_parts_may_come_as_json(tools: Contract) -> None:
    arguments = {"query": "x", "filters": '{"kind": " stock ", "min_importance": "0.5"}'}
    filters = tools.read("memory_recall", arguments)["filters"]
    assert (filters["kind"], filters["min_importance"]) == ("stock", 0.5)
    arguments = {"content": "x", "entities": '[{"id": "a", "aliases": "[\\"b\\"]"}]'}
    assert tools.read("memory_remember", arguments)["entities"][0]["aliases"] == ["b"]


def test_many_memories_are_read_as_the_arguments_of_the_tool(tools: Contract) -> None:
    one, two = tools.read_many("memory_remember", [{"content": "x"}, '{"content": "y"}'])
    assert one == tools.read("memory_remember", {"content": "x"})
    assert two["content"] == "y"
    with pytest.raises(InvalidInput, match=r"^items\[1\]\.content is missing\.$"):
        tools.read_many("memory_remember", [{"content": "x"}, {}])
    with pytest.raises(InvalidInput, match=r"^items has 10001 items; at most 10000 are allowed"):
        tools.read_many("memory_remember", [{"content": "x"}] * 10_001)
    with pytest.raises(InvalidInput, match=r"^items must be a list"):
        tools.read_many("memory_remember", "x")


def test_a_relations_id_is_a_whole_number(tools: Contract) -> None:
    assert tools.relation_id("17") == 17
    for wrong in ("0", "-1", "1.5", "chunk_1", str(1 << 63), "9" * 30):
        with pytest.raises(InvalidInput, match=r"^target_id must be a whole number from 1 to "):
            tools.relation_id(wrong)


# --- Bounds from the settings ----------------------------------------------------------


def test_bounds_and_defaults_follow_the_settings() -> None:
    # A bound below the usual default left a default that the tool itself refused.
    names = ("TOP_K", "HOPS", "GRAPH_NODES")
    low = contract(Config.load({f"MNELO_MEMORY_LIMITS_{name}": "1" for name in names}))
    recall, graph = low.schema("memory_recall"), low.schema("memory_graph_query")
    for schema, argument in (
        *((recall, "top_k"), (recall, "graph_hops")),
        *((graph, "max_hops"), (graph, "limit")),
    ):
        bounds = schema["properties"][argument]
        assert bounds["maximum"] == bounds["default"] == 1
    assert low.read("memory_recall", {"query": "x"})["top_k"] == 1
    bytes_of = {"CONTENT_BYTES": "10", "QUERY_BYTES": "5"}
    short = contract(Config.load({f"MNELO_MEMORY_LIMITS_{k}": v for k, v in bytes_of.items()}))
    for tool, argument, limit in (("remember", "content", 10), ("recall", "query", 5)):
        with pytest.raises(InvalidInput, match=f"^{argument} is 12 bytes long; at most {limit} "):
            short.read(f"memory_{tool}", {argument: "北门北门"})


# --- Schemas ---------------------------------------------------------------------------


def inner(schema: Schema) -> Iterator[Schema]:
    """The schema and every one inside it."""
    yield schema
    for part in schema.get("properties", {}).values():
        yield from inner(part)
    if "items" in schema:
        yield from inner(schema["items"])


@pytest.mark.parametrize("tool", TOOLS)
def test_a_schema_is_a_plain_object_that_any_client_understands(tools: Contract, tool: str) -> None:
    schema = tools.schema(tool)
    assert json.loads(json.dumps(schema, allow_nan=False)) == schema
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert list(schema["properties"]) == list(TOOLS[tool])
    assert schema["required"] == list(LEAST[tool])
    for each in inner(schema):
        assert not {"anyOf", "oneOf", "allOf", "not", "$ref", "$defs", "const"} & set(each)
        assert isinstance(each["type"], str)
        assert set(each.get("required", ())) <= set(each.get("properties", ()))
    for argument in schema["properties"].values():
        assert len(argument["description"]) > 3


@pytest.mark.parametrize("tool", TOOLS)
def test_a_default_in_a_schema_is_what_is_used(tools: Contract, tool: str) -> None:
    read = tools.read(tool, LEAST[tool])
    for argument, schema in tools.schema(tool)["properties"].items():
        takes = TOOLS[tool][argument]
        if takes.default is REQUIRED:
            assert "default" not in schema
        elif takes.default in (None, [], {}):
            assert schema.get("default", takes.default) == read[argument]
        else:
            assert schema["default"] == read[argument]


def test_bounds_are_in_the_schemas(tools: Contract) -> None:
    recall = tools.schema("memory_recall")["properties"]
    assert (recall["top_k"]["minimum"], recall["top_k"]["maximum"]) == (1, 100)
    assert (recall["graph_hops"]["minimum"], recall["graph_hops"]["maximum"]) == (0, 5)
    assert recall["query"]["maxLength"] == 4096
    remember = tools.schema("memory_remember")["properties"]
    assert remember["content"]["maxLength"] == 65536
    assert (remember["importance"]["minimum"], remember["importance"]["maximum"]) == (0, 1)
    assert remember["source"]["maxLength"] == 200
    assert recall["strategy"]["enum"] == list(STRATEGIES)


# --- Language --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("memory_recall", {}, "缺少 query。"),
        ("memory_recall", {"query": " "}, "query 为空；需要一些文字。"),
        ("memory_recall", {"query": 5}, "query 必须是文字，而不是 5。"),
        (
            "memory_recall",
            {"query": "x", "top_k": 0},
            "top_k 必须是1 到 100 之间的整数，而不是 0。",
        ),
        (
            "memory_recall",
            {"query": "x", "filters": {"knid": 1}},
            "filters 不认识 knid；允许：" + ", ".join(FILTERS) + "。",
        ),
        ("memory_forget", {"target_id": "a\n"}, "target_id 含有控制字符或不可见字符；"),
        ("memory_update", {"old_id": "x" * 300}, "old_id 长 300 个字符；最多允许 256 个。"),
    ],
)
def test_in_chinese_the_refusals_are_chinese(
    tools: Contract,
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
    arguments: dict[str, Any],
    sentence: str,
) -> None:
    monkeypatch.setenv("MNELO_MEMORY_LANG", "zh")
    assert refusal(tools, tool, arguments).startswith(sentence)
