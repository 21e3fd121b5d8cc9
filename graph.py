"""The neighbourhood of a node: what memory_graph_query shows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from results import Edge, Graph, Node
from rows import EdgeRow, Scope, is_chunk_id
from store import View

MOST_EDGES = 10_000  # of one node, heaviest first
MOST_NODES = 10_000  # looked at in one query
TITLE = 80  # characters of a chunk that stand for its name


@dataclass(frozen=True, slots=True)
class Walk:
    """Where to begin and how far to go; `at` is the moment at which relations must hold."""

    start: str
    hops: int
    types: Sequence[str]
    asof: str | None
    at: str
    limit: int


def neighbourhood(view: View, walk: Walk) -> Graph:
    """Nodes by hop, then heaviest edge first, with the edges between those shown, each once."""
    hops, edges, cut = _walk(view, walk)
    nodes = _nodes(view, walk, hops)
    shown = nodes[: walk.limit]
    ids = {node["id"] for node in shown}
    between = [edge for edge in edges.values() if {edge.source_id, edge.target_id} <= ids]
    between.sort(key=lambda edge: (-edge.weight, edge.id))
    return {
        "nodes": shown,
        "edges": [_edge(edge) for edge in between],
        "asof": walk.at,
        "truncated": cut or len(nodes) > walk.limit,
        "total_nodes": len(nodes),
    }


def _walk(view: View, walk: Walk) -> tuple[dict[str, int], dict[int, EdgeRow], bool]:
    """Breadth first along relations, either way; live nodes with their hops, and all edges."""
    hops = {walk.start: 0}
    edges: dict[int, EdgeRow] = {}
    frontier = [walk.start]
    cut = False
    for hop in range(1, walk.hops + 1):
        reached: dict[str, float] = {}
        for node in frontier:
            found = view.edges(node, walk.at, MOST_EDGES, walk.types)
            cut |= len(found) == MOST_EDGES
            edges |= {edge.id: edge for edge in found}
            for edge in found:
                other = edge.target_id if edge.source_id == node else edge.source_id
                reached[other] = max(reached.get(other, 0.0), edge.weight)
        new = _live(view, walk, [node for node in reached if node not in hops])
        frontier = sorted(new, key=lambda node: (-reached[node], node))
        cut |= len(hops) + len(frontier) > MOST_NODES
        frontier = frontier[: MOST_NODES - len(hops)]
        hops |= dict.fromkeys(frontier, hop)
    return hops, edges, cut


def _live(view: View, walk: Walk, nodes: Sequence[str]) -> set[str]:
    scope = Scope(asof=walk.asof)
    chunks = view.chunks([node for node in nodes if is_chunk_id(node)], scope)
    return {*chunks, *view.entities([node for node in nodes if not is_chunk_id(node)], scope)}


def _nodes(view: View, walk: Walk, hops: Mapping[str, int]) -> list[Node]:
    scope = Scope(asof=walk.asof)
    chunks = view.chunks(filter(is_chunk_id, hops), scope)
    entities = view.entities((node for node in hops if not is_chunk_id(node)), scope)
    nodes: list[Node] = []
    for node, hop in hops.items():
        if node in chunks:
            title = " ".join(chunks[node].content.split())[:TITLE]
            nodes.append({"id": node, "kind": "chunk", "name": title, "summary": "", "hops": hop})
        elif node in entities:
            row = entities[node]
            nodes.append(
                {
                    "id": node,
                    "kind": row.kind,
                    "name": row.name,
                    "summary": row.summary,
                    "hops": hop,
                }
            )
    return nodes


def _edge(row: EdgeRow) -> Edge:
    return {
        "id": row.id,
        "source_id": row.source_id,
        "target_id": row.target_id,
        "relation": row.relation,
        "weight": row.weight,
        "properties": json.loads(row.properties_json),
        "valid_from": row.valid_from,
        "valid_until": row.valid_until,
        "evidence_chunk_id": row.evidence_chunk_id,
    }
