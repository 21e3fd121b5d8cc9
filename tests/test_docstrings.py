"""Every example in a docstring is run, so that none of them is wrong."""

import doctest
import importlib

import pytest

from checkout import CODE, module_of

MODULES = sorted(module_of(path) for path in CODE if not path.stem.startswith("_"))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_do_what_they_say(name: str) -> None:
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_the_modules_of_pure_functions_have_examples() -> None:
    for name in ("text.words", "recall.fusion", "core.timestamps", "mnelo_locale"):
        tests = doctest.DocTestFinder().find(importlib.import_module(name))
        assert sum(len(each.examples) for each in tests) > 1, name
