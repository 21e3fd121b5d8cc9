"""What each argument of each tool may be, and the line that names what is wrong with it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from access.validation import STRATEGIES, TARGETS, Contract, Schema, contract
from argument_table import FILTERS, LEAST, PARTS, REQUIRED, TOOLS, ZONE, Place, each_place
from config import Config
from core.errors import InvalidInput


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


def test_the_names_of_all_entities_of_one_call_are_bounded(tools: Contract) -> None:
    entities = [{"id": f"e{n}", "aliases": [f"a{n}x{m}" for m in range(9)]} for n in range(50)]
    given: dict[str, Any] = {"content": "x", "entities": entities}
    assert len(tools.read("memory_remember", given)["entities"]) == 50
    entities[7]["name"] = "one more"
    said = refusal(tools, "memory_remember", given)
    assert said.startswith("entities has 501 ids, names and aliases; at most 500 are allowed")
    with pytest.raises(InvalidInput, match=r"^items\[0\]\.entities has 501"):
        tools.read_many("memory_remember", [given])
    schema = tools.schema("memory_remember")["properties"]["entities"]
    assert "at most 500" in schema["description"]
