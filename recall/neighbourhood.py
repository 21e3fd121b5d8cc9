"""The neighbourhood of a node: what memory_graph_query shows."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from core.errors import NotFound
from core.results import Cautioned, Edge, Graph, Node
from core.types import ChunkRow, EdgeRow, EntityRow, GraphBounds, Scope, is_chunk_id
from recall.query import ENTITY
from store import View

NODE_BYTES = 195  # of the reply for each node that may be shown: 39 kB for the default of 200
TITLE = 80  # characters of a chunk that stand for its name
SUMMARY = 200  # characters of a summary


@dataclass(frozen=True, slots=True)
class Walk:
    """Where to begin, how far to go, and how many nodes to show at most."""

    start: str
    hops: int
    limit: int
    bounds: GraphBounds
    caution: Callable[..., Cautioned]
    """What is to stand beside the texts of a node or a relation."""


def find_node(view: View, reference: str, asof: str | None) -> str:
    """The node that a reference means: a memory by any of its ids, an entity by any name."""
    if is_chunk_id(reference):
        latest = view.latest_version(reference)
        for chunk_id in (reference, latest):
            if view.chunks([chunk_id], Scope(asof=asof)):
                return chunk_id
        raise NotFound("missing.forgotten", id=reference)
    found = view.find_entity(reference, asof) or view.find_entity(
        reference.removeprefix(ENTITY), asof
    )
    if found is None:
        near = ", ".join(view.near_names(reference)) or "-"
        raise NotFound("missing.entity", id=reference, near=near)
    return found


def neighbourhood(view: View, walk: Walk) -> Graph:
    """Nodes by hop, then by their heaviest relation, and each relation between them once.

    What exceeds the limit of nodes, or 195 bytes for each node of that limit, is left out, the
    farthest and lightest first. The walk ends with the hop that passes the limit.
    """
    hops, complete = _walk(view, walk)
    shown = _nodes(view, walk, hops)
    rows = view.edges_between([node["id"] for node in shown], walk.bounds)
    edges = [_edge(row, walk.caution(row.relation, row.properties)) for row in rows]
    nodes, kept = _fit(shown, edges, NODE_BYTES * walk.limit)
    return {
        "nodes": nodes,
        "edges": kept,
        "asof": walk.bounds.at,
        "truncated": not complete or len(nodes) < len(hops) or len(kept) < len(edges),
        "total_nodes": len(hops),
        "total_edges": len(edges),
    }


def _walk(view: View, walk: Walk) -> tuple[dict[str, int], bool]:
    """Every node that was reached, nearest first, and whether these are all within the hops."""
    hops = {walk.start: 0}
    frontier = [walk.start]
    for hop in range(1, walk.hops + 1):
        if len(hops) > walk.limit:
            return hops, False  # farther nodes would not be shown
        frontier = [node for node in view.neighbours(frontier, walk.bounds) if node not in hops]
        hops |= dict.fromkeys(frontier, hop)
    return hops, True


def _nodes(view: View, walk: Walk, hops: Mapping[str, int]) -> list[Node]:
    ids = list(hops)[: walk.limit]
    scope = Scope(asof=walk.bounds.asof)
    rows: dict[str, ChunkRow | EntityRow] = {
        **{row.id: row for row in view.chunks((node for node in ids if is_chunk_id(node)), scope)},
        **view.entities((node for node in ids if not is_chunk_id(node)), scope),
    }
    nodes = [_node(rows[node], hops[node]) for node in ids if node in rows]
    return [{**node, **walk.caution(node["name"], node["summary"])} for node in nodes]


def _node(row: ChunkRow | EntityRow, hops: int) -> Node:
    if isinstance(row, ChunkRow):
        title = _short(" ".join(row.content.split()), TITLE)
        return {"id": row.id, "kind": "chunk", "name": title, "summary": "", "hops": hops}
    return {
        "id": row.id,
        "kind": row.kind,
        "name": row.name,
        "summary": _short(row.summary, SUMMARY),
        "hops": hops,
    }


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _edge(row: EdgeRow, caution: Cautioned) -> Edge:
    edge: Edge = {
        "id": row.id,
        "source_id": row.source_id,
        "target_id": row.target_id,
        "relation": row.relation,
        "weight": row.weight,
        "valid_from": row.valid_from,
    }
    if row.valid_until:
        edge["valid_until"] = row.valid_until
    if row.evidence_chunk_id:
        edge["evidence_chunk_id"] = row.evidence_chunk_id
    if row.properties:
        edge["properties"] = row.properties
    return {**edge, **caution}


# --- The size of the reply -------------------------------------------------------------


def _fit(nodes: list[Node], edges: list[Edge], budget: int) -> tuple[list[Node], list[Edge]]:
    """What fits: each node with the relation that leads to it, then the other relations."""
    leading = _leading(nodes, edges)
    kept_nodes: list[Node] = []
    kept: set[int] = set()
    for node in nodes:
        edge = leading.get(node["id"])
        budget -= _bytes(node) + (_bytes(edge) if edge else 0)
        if budget < 0 and kept_nodes:
            break
        kept_nodes.append(node)
        kept |= {edge["id"]} if edge else set()
    ids = {node["id"] for node in kept_nodes}
    for edge in edges:
        if edge["id"] not in kept and {edge["source_id"], edge["target_id"]} <= ids:
            budget -= _bytes(edge)
            if budget < 0:
                break
            kept.add(edge["id"])
    return kept_nodes, [edge for edge in edges if edge["id"] in kept]


def _leading(nodes: Iterable[Node], edges: Iterable[Edge]) -> dict[str, Edge]:
    """For each node its heaviest relation to a node one hop nearer."""
    hops = {node["id"]: node["hops"] for node in nodes}
    leading: dict[str, Edge] = {}
    for edge in edges:
        for far, near in (
            (edge["source_id"], edge["target_id"]),
            (edge["target_id"], edge["source_id"]),
        ):
            if hops[far] == hops[near] + 1:
                leading.setdefault(far, edge)
    return leading


def _bytes(part: Node | Edge) -> int:
    return len(json.dumps(part, ensure_ascii=False).encode()) + 2
