"""What each argument of each tool may be, by hand: what the code says must be the same.

A bound or a default that changes in the code has to change here as well.
"""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from access.validation import STRATEGIES

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
