"""What Memory's public methods return: plain dictionaries with these keys."""

from typing import Any, Literal, TypedDict

from typing_extensions import NotRequired

Lane = Literal["vector", "graph", "meta", "entity", "cue"]


class Similar(TypedDict):
    """A live memory that says nearly the same."""

    chunk_id: str
    similarity: float  # the cosine, -1 to 1
    score: float  # the same on the scale of every model: 0 as unrelated texts, 1 identical


class Guarded(TypedDict, total=False):
    """What is said where something to be stored looked like a secret, or speaks to agents."""

    secrets: list[str]  # their kinds, see guard.KINDS
    notice: str


class Cautioned(TypedDict, total=False):
    """What stands beside a text that speaks to the agent which reads it."""

    caution: str  # a sentence: it is a quotation, and nothing to follow


class Remembered(Guarded):
    chunk_id: str
    status: Literal["stored", "exists"]
    entities: list[str]
    embedding: Literal["stored", "pending", "off"]
    similar: NotRequired[list[Similar]]


class Hit(TypedDict):
    """A recalled memory, or an entity (chunk_id is then "entity:<id>")."""

    chunk_id: str
    content: str
    source: str
    timestamp: str
    importance: float
    method: Lane  # the lane that ranked it best
    lanes: dict[Lane, int]  # its rank in each lane that found it, from 1
    score: float
    rrf_score: float
    similarity: NotRequired[float]  # cosine, -1 to 1, when the vector lane saw it
    distance: NotRequired[float]  # L2 distance of the unit vectors, 0 to 2
    match: NotRequired[float]
    """What part of the query's weight (IDF) the memory's own words make up, 0 to 1."""
    entity_id: NotRequired[str]
    entity_name: NotRequired[str]
    entity_kind: NotRequired[str]
    truncated: NotRequired[bool]
    weak: NotRequired[bool]  # nothing that was found is likely to be an answer; this hit neither
    caution: NotRequired[str]  # see Cautioned
    explain: NotRequired[dict[str, Any]]


class Recalled(TypedDict):
    hits: list[Hit]
    notice: NotRequired[str]


class Related(Guarded):
    relation_id: int
    status: str  # "stored", "stored, already over", "updated" or "exists"


class Forgotten(TypedDict):
    forgotten: int
    edges_invalidated: int


class Updated(Guarded):
    new_chunk_id: str
    supersedes: str
    status: Literal["updated", "unchanged"]


class Duplicate(TypedDict):
    """Two entities that may be one; `score` is 0 to 1."""

    keep: str
    duplicate: str
    score: float
    reason: str  # "name", "code", "alias" or "spelling"


class Duplicates(TypedDict):
    candidates: list[Duplicate]
    partial: bool


class Merged(TypedDict):
    merged: int
    audit_id: int | None  # what undo_merge takes; None where nothing was merged
    relations: int
    mentions: int


class Node(TypedDict):
    id: str
    kind: str
    name: str
    summary: str
    hops: int
    caution: NotRequired[str]


class Edge(TypedDict):
    id: int
    source_id: str
    target_id: str
    relation: str
    weight: float
    valid_from: str
    valid_until: NotRequired[str]
    evidence_chunk_id: NotRequired[str]
    properties: NotRequired[dict[str, Any]]
    caution: NotRequired[str]


class Graph(TypedDict):
    nodes: list[Node]
    edges: list[Edge]
    asof: str
    truncated: bool
    total_nodes: int  # nodes of the hops that were looked at
    total_edges: int  # relations between the nodes that the limit admits
