"""The examples in docstrings, run as they are written."""

import doctest
from typing import Any


def run_examples(documented: Any, **names: Any) -> int:
    """Run the examples of a function or class, given these names; return how many there were.

    A class's own examples run before those of its methods, which run in alphabetical order.
    """
    runner = doctest.DebugRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    for test in sorted(doctest.DocTestFinder().find(documented), key=lambda test: test.name):
        test.globs |= names
        runner.run(test, clear_globs=False)
    return runner.summarize(verbose=False).attempted
