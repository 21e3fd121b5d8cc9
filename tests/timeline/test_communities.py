"""Overlapping communities: the same as networkx finds, in time, and with lasting ids."""

import random
import time
import tracemalloc
from collections.abc import Iterator
from itertools import combinations, count

import networkx
import numpy as np
import pytest
from networkx.algorithms.community import k_clique_communities
from numpy.typing import NDArray

from index.calibration import scaled, similarity
from timeline import communities as communities_module
from timeline.communities import TooDense, communities, edges, stable_ids


def bits(graph: "networkx.Graph[int]") -> list[int]:
    return [sum(1 << other for other in graph[node]) for node in range(len(graph))]


def joined(cliques: list[range], nodes: int) -> list[int]:
    """The graph in which the nodes of each clique are joined."""
    neighbours = [0] * nodes
    for clique in cliques:
        members = sum(1 << node for node in clique)
        for node in clique:
            neighbours[node] |= members & ~(1 << node)
    return neighbours


def random_graphs() -> Iterator["networkx.Graph[int]"]:
    for seed in range(0, 16, 2):
        yield networkx.gnp_random_graph(40, 0.05 + seed * 0.03, seed=seed)
    for seed in range(2):
        yield networkx.random_partition_graph([12, 12, 12, 12], 0.8, 0.06, seed=seed)


def test_communities_are_those_that_networkx_finds() -> None:
    overlapping = 0
    for graph in random_graphs():
        for k in range(2, 7):
            found = communities(bits(graph), k)
            assert sorted(found) == sorted(map(sorted, k_clique_communities(graph, k)))
            assert found == sorted(found, key=lambda members: (-len(members), members))
            overlapping += sum(map(len, found)) > len(set().union(*found))
    assert overlapping > 10


def test_a_node_may_be_in_two_communities() -> None:
    neighbours = joined([range(5), range(4, 8)], 9)
    assert communities(neighbours, 4) == [[0, 1, 2, 3, 4], [4, 5, 6, 7]]
    assert communities(neighbours, 2) == [[0, 1, 2, 3, 4, 5, 6, 7]]
    assert communities(neighbours, 5) == [[0, 1, 2, 3, 4]]


@pytest.mark.parametrize("neighbours", [[], [0], [0, 0, 0], [0b10, 0b01]])
def test_where_no_clique_is_there_is_no_community(neighbours: list[int]) -> None:
    assert communities(neighbours, 3) == []


def test_k_is_two_at_least() -> None:
    with pytest.raises(ValueError, match="2 or more"):
        communities([], 1)


def test_large_cliques_and_their_overlaps_are_no_trouble() -> None:
    assert communities(joined([range(1000)], 1000), 4) == [list(range(1000))]
    for overlap, expected in ((2, 20), (3, 1)):
        step = 60 - overlap
        cliques = [range(at * step, at * step + 60) for at in range(20)]
        assert len(communities(joined(cliques, 20 * step + overlap), 4)) == expected


def test_many_that_are_nearly_all_alike_are_one_community() -> None:
    graph = networkx.gnp_random_graph(200, 0.95, seed=1)
    assert communities(bits(graph), 4) == [list(range(200))]


# --- Too dense -------------------------------------------------------------------------


def dense() -> list[int]:
    return bits(networkx.gnp_random_graph(300, 0.5, seed=1))


def test_a_search_past_its_deadline_says_what_it_reached() -> None:
    with pytest.raises(TooDense) as told:
        communities(bits(networkx.gnp_random_graph(700, 0.5, seed=1)), 5, time.monotonic() + 0.4)
    assert told.value.cliques > 0
    assert 0 <= told.value.done < told.value.nodes == 700
    assert f"around {told.value.done} of 700 nodes" in str(told.value)


def test_a_deadline_that_is_over_ends_a_search_at_once() -> None:
    with pytest.raises(TooDense) as told:
        communities(dense(), 4, time.monotonic())
    assert (told.value.cliques, told.value.done) == (0, 0)


def test_no_more_cliques_are_held_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(communities_module, "MAX_BUNDLES", 500)
    with pytest.raises(TooDense) as told:
        communities(dense(), 4)
    assert told.value.cliques == 501


def test_cliques_of_parts_that_are_apart_are_not_held_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(communities_module, "MAX_BUNDLES", 1)
    neighbours = joined([range(at, at + 4) for at in range(0, 40, 4)], 40)
    assert len(communities(neighbours, 4)) == 10


# --- Edges -----------------------------------------------------------------------------


def vectors(count: int, dim: int = 8, seed: int = 1) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(count, dim)).astype(np.float32)


def near(rows: NDArray[np.float32], zero: float, threshold: float) -> list[int]:
    """The edges where the zero of all pairs is the same."""
    zeros = np.full((2, 2), zero, np.float32)
    return edges(rows, np.zeros(len(rows), np.intp), zeros, threshold)


def test_edges_are_the_pairs_that_are_similar_enough() -> None:
    rows = vectors(600)
    alike = similarity(rows, rows, 0.5)
    found = near(rows, 0.5, 0.6)
    for one, other in combinations(range(600), 2):
        joined_ = bool(found[one] >> other & 1)
        assert joined_ == bool(found[other] >> one & 1)
        if abs(alike[one, other] - 0.6) > 1e-5:
            assert joined_ == bool(alike[one, other] >= 0.6)
    assert not any(bits >> node & 1 for node, bits in enumerate(found))
    assert 0 < sum(bits.bit_count() for bits in found) < 600 * 599


def test_each_pair_is_judged_by_the_zero_of_its_scripts() -> None:
    rows = vectors(100)
    scripts = np.arange(100) % 2
    zeros = np.array([[0.1, 0.3], [0.3, 0.6]], np.float32)
    found = edges(rows, scripts, zeros, 0.5)
    for one, other in combinations(range(100), 2):
        zero = float(zeros[scripts[one], scripts[other]])
        (alike,) = similarity(rows[[one]], rows[[other]], zero)[0]
        if abs(alike - 0.5) > 1e-5:
            assert bool(found[one] >> other & 1) == bool(alike >= 0.5)


def test_comparing_all_with_all_ends_at_the_deadline() -> None:
    with pytest.raises(TooDense):
        edges(vectors(10), np.zeros(10, np.intp), np.zeros((2, 2), np.float32), 0.5, 0.0)


@pytest.mark.parametrize("number", [0, 1, 7, 256, 257])
def test_any_number_of_equal_vectors_are_all_joined(number: int) -> None:
    rows = np.ones((number, 4), dtype=np.float32)
    everyone = (1 << number) - 1
    assert near(rows, 0.5, 0.9) == [everyone & ~(1 << node) for node in range(number)]


def test_edges_need_far_less_than_a_matrix_of_all_pairs() -> None:
    rows = vectors(3000, 4)
    tracemalloc.start()
    try:
        near(rows, 0.1, 2.0)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 3000 * 3000 * 4 / 2


# --- Calibration -----------------------------------------------------------------------


def test_unit_vectors_are_similar_as_their_cosine_is_scaled() -> None:
    rows = vectors(20)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    expected = np.clip((rows @ rows.T - 0.7) / 0.3, -1, 1)
    assert np.allclose(similarity(rows, rows, 0.7), expected, atol=1e-5)
    assert scaled(np.array([0.7, 0.85, 1]), 0.7) == pytest.approx([0, 0.5, 1], abs=1e-6)


def test_what_all_texts_have_in_common_does_not_count() -> None:
    own = vectors(10, 6)
    common = np.full((10, 1), np.sqrt(0.75), dtype=np.float32)
    alike = similarity(np.hstack([own, common]), np.hstack([own, common]), 0.75)
    lengths = np.linalg.norm(own, axis=1)
    assert np.allclose(alike, own @ own.T / np.outer(lengths, lengths), atol=1e-4)


def test_vectors_with_nothing_of_their_own_have_a_similarity_too() -> None:
    rows = np.array([[0, 0], [0.1, 0], [1, 0], [-1, 0]], dtype=np.float32)
    alike = similarity(rows, rows, 0.8)
    assert np.isfinite(alike).all()
    assert alike.min() == -1
    assert alike.max() <= 1


# --- Ids -------------------------------------------------------------------------------


def given_ids(old: dict[str, set[str]], new: list[set[str]]) -> list[str]:
    numbers = count(1)
    return stable_ids(old, new, lambda: f"new{next(numbers)}")


def test_a_group_keeps_its_id_while_half_of_it_stays() -> None:
    old = {"a": set("12345"), "b": set("6789")}
    assert given_ids(old, [set("6789x"), set("1234")]) == ["b", "a"]
    assert given_ids(old, [set("123yz"), set("67xyz")]) == ["new1", "new2"]
    assert given_ids(old, [set("1234567890")]) == ["a"]
    assert given_ids({}, [set("12"), set("34")]) == ["new1", "new2"]
    assert given_ids(old, []) == []


def test_an_id_goes_to_the_group_that_has_most_of_it_and_to_no_other() -> None:
    old = {"a": set("1234"), "b": set("1235")}
    assert given_ids(old, [set("12345"), set("1234")]) == ["b", "a"]
    assert given_ids({"a": set("123456")}, [set("1234"), set("12345"), set("456")]) == [
        "new1",
        "a",
        "new2",
    ]


def test_the_order_of_groups_and_members_does_not_matter() -> None:
    rng = random.Random(1)  # noqa: S311
    old = {f"g{at}": {f"m{rng.randrange(30)}" for _ in range(6)} for at in range(8)}
    new = [{*members, "z"} for members in old.values()] + [{"m1", "m2"}]
    expected = dict(zip(map(frozenset, new), given_ids(old, new), strict=True))
    for _ in range(5):
        rng.shuffle(new)
        shuffled = dict(rng.sample(list(old.items()), len(old)))
        assert dict(zip(map(frozenset, new), given_ids(shuffled, new), strict=True)) == expected
