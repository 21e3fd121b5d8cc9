"""The timeline's ten tools as MCP shows them; what each accepts is in timeline/arguments.py."""

import json

from config import Config
from core.errors import InvalidInput, MneloError, ModelError, NotFound, StoreBusy, StoreError
from server.tools import COUNT, FLAG, GUARDED, OBJECT, OBJECTS, TEXT, Shown, Toolset, reads, returns
from timeline.arguments import contract
from timeline.timeline import Timeline

SAYS = """\
The timeline holds entries: a summary, five tags and, if you like, the whole context.

- memory_write stores one; memory_query finds some by meaning, with a real score (0 unrelated, \
1 the same); memory_get_context reads what one sums up, segment by segment.
- memory_get_groups and memory_get_group_members lead from an entry to others that are alike.
- memory_recall finds entries too: their timeline_id is a chunk_id."""

CODES: tuple[tuple[type[MneloError], str], ...] = (
    (InvalidInput, "invalid_argument"),
    (NotFound, "not_found"),
    (StoreBusy, "busy"),
    (StoreError, "store"),
    (ModelError, "model"),
)
"""What a failure is called, for programs; the first that fits."""

TOOLS = (
    Shown(
        "write",
        "Store an entry, as an object or as its JSON; the very same one is folded.",
        returns(timeline_id=TEXT, status=TEXT, segments=COUNT, embedding=TEXT, **GUARDED),
        title="Write entry",
    ),
    reads(
        "query",
        "Entries that fit best by meaning, with scores of 0 (unrelated) to 1 (the same).",
        returns(results=OBJECTS, notice=TEXT),
        title="Query entries",
    ),
    reads(
        "get_context",
        "Segments of what an entry sums up, from `offset` on.",
        returns(timeline_id=TEXT, segments=OBJECTS, total=COUNT, has_more=FLAG),
    ),
    Shown(
        "write_context",
        "Add text to an entry's context; it is cut into segments where it pauses.",
        returns(timeline_id=TEXT, status=TEXT, added=COUNT, segments=COUNT, **GUARDED),
    ),
    reads(
        "get_groups",
        "The groups that an entry belongs to.",
        returns(entry_id=TEXT, groups=OBJECTS),
    ),
    reads(
        "list_groups",
        "All groups of entries that are alike, with their commonest tags.",
        returns(groups=OBJECTS, notice=TEXT),
    ),
    reads(
        "get_group_members",
        "The entries of a group, oldest first.",
        returns(group_id=TEXT, total=COUNT, members=OBJECTS),
    ),
    Shown(
        "rebuild_groups",
        "Look for the groups now instead of some seconds after the last write.",
        returns(status=TEXT, group_count=COUNT, notice=TEXT),
    ),
    reads(
        "init",
        "Make sure that file and model are ready.",
        returns(status=TEXT, vectors=FLAG, entries=COUNT, notice=TEXT),
    ),
    reads(
        "status",
        "How many entries and groups there are, the settings in force, and upkeep.",
        OBJECT,
    ),
)


def timeline_tools(timeline: Timeline, config: Config) -> Toolset:
    """The ten tools, whose failures are JSON with a code and a sentence."""
    return Toolset(TOOLS, contract(config), timeline, SAYS, failure)


def failure(error: BaseException, sentence: str) -> str:
    code = next((code for kind, code in CODES if isinstance(error, kind)), "internal")
    return json.dumps({"error": {"code": code, "message": sentence}}, ensure_ascii=False)
