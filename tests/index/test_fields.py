"""Which chunks are in a scope, by the numbers in memory."""

import pytest

from memory import Memory


@pytest.mark.parametrize(
    "filters",
    [
        {"time_from": "2026-07-01T10:00:00Z"},
        {"time_to": "2026-07-01T10:00:00.000Z"},
        {"min_importance": 0.3},
    ],
)
def test_a_memory_on_the_bound_of_a_filter_is_within_it(
    wordless: Memory, filters: dict[str, object]
) -> None:
    wordless.remember("the kettle", timestamp="2026-07-01T10:00:00Z", importance=0.3)
    found = wordless.recall("kettle", filters=filters)["hits"]
    assert [hit["content"] for hit in found] == ["the kettle"]
