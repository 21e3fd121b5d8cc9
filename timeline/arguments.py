"""What each of the timeline's tools accepts; see access/validation.py for the kinds."""

import json
from dataclasses import dataclass
from typing import Any

from access.validation import (
    Argument,
    Choice,
    Contract,
    Fields,
    Flag,
    Id,
    Integer,
    Items,
    Name,
    Number,
    Schema,
    Table,
    Text,
)
from config import Config
from core.errors import InvalidInput
from text.words import name_key

CATEGORIES = ("conversation", "knowledge", "document", "preference", "other")
TAGS = 5
SUMMARY_CHARACTERS = 200
MAX_SEGMENTS = 100  # of a context, that one call returns
MAX_OFFSET = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Summary:
    """A short text, counted in characters."""

    def schema(self) -> Schema:
        return {"type": "string", "maxLength": SUMMARY_CHARACTERS}

    def read(self, name: str, value: Any) -> str:
        text = Text(1 << 20).read(name, value).strip()
        if len(text) > SUMMARY_CHARACTERS:
            size, limit = len(text), SUMMARY_CHARACTERS
            raise InvalidInput("input.chars", name=name, size=size, limit=limit)
        return text


@dataclass(frozen=True, slots=True)
class Tags:
    """Five tags, of which no two are the same."""

    def schema(self) -> Schema:
        bounds = {"minItems": TAGS, "maxItems": TAGS, "uniqueItems": True}
        return Items(Name(200)).schema() | bounds

    def read(self, name: str, value: Any) -> list[str]:
        tags: list[str] = Items(Name(200)).read(name, value)
        different = len(set(map(name_key, tags)))
        if len(tags) != TAGS or different != TAGS:
            size = different if len(tags) == TAGS else len(tags)
            raise InvalidInput("timeline.tags", name=name, wanted=TAGS, size=size)
        return tags


@dataclass(frozen=True, slots=True)
class ObjectOrJson(Fields):
    """An object, or its JSON as text; the schema says an object, since clients refuse unions."""

    def read(self, name: str, value: Any) -> dict[str, Any]:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError) as error:
                raise InvalidInput("timeline.json", name=name, error=error) from None
        return Fields.read(self, name, value)


def contract(config: Config) -> Contract:
    """The ten tools' arguments, with the bounds of the settings."""
    entry: Table = {"entry_id": Argument(Id(), "timeline_id", required=True)}
    tables: dict[str, Table] = {
        "memory_write": {
            "data": Argument(ObjectOrJson(_entry(config)), "Or its JSON as text", None, True)
        },
        "memory_query": _query(config),
        "memory_get_context": {
            "timeline_id": Argument(Id(), required=True),
            "offset": Argument(Integer(0, MAX_OFFSET), "First segment, from 0", 0),
            "limit": Argument(Integer(1, MAX_SEGMENTS), "Most segments", 1),
        },
        "memory_write_context": {
            "timeline_id": Argument(Id(), required=True),
            "context_text": Argument(_context(config), "Added to what is there", required=True),
        },
        "memory_get_groups": entry,
        "memory_list_groups": {},
        "memory_get_group_members": {"group_id": Argument(Id(), required=True)},
        "memory_rebuild_groups": {
            "threshold": Argument(Number(0, 1), "How alike, for this once; default as configured")
        },
        "memory_init": {},
        "memory_status": {},
    }
    return Contract({tool: Fields(table) for tool, table in tables.items()})


def _context(config: Config) -> Text:
    return Text(config.limits_request_bytes)


def _entry(config: Config) -> Table:
    return {
        "summary": Argument(Summary(), "What happened or is so, in a sentence", required=True),
        "tags": Argument(Tags(), "Exactly five", required=True),
        "context_text": Argument(_context(config), "All that it sums up"),
        "category": Argument(Choice(CATEGORIES), required=True),
        "is_time_sensitive": Argument(Flag(), "Closed after some days", False),
    }


def _query(config: Config) -> Table:
    most = config.limits_top_k
    return {
        "query": Argument(Text(config.limits_query_bytes), "What to look for", required=True),
        "top_k": Argument(Integer(1, most), "Most entries", min(3, most)),
        "score_threshold": Argument(
            Number(0, 1), "0 as an unrelated text, 1 the same; default as configured"
        ),
    }
