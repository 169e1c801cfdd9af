"""Deep nesting is refused before the parser sees it; brackets in texts are no nesting."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import jsontext

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=20,
)


@pytest.mark.slow
@given(values)
def test_what_is_not_deep_is_read_as_json(value: object) -> None:
    assert jsontext.loads(json.dumps(value)) == value


@pytest.mark.parametrize("text", ["[" * 1_000_000, '{"a":' * 200_000, "[" * 65 + "]" * 65])
def test_deep_nesting_is_refused_whatever_the_recursion_limit(text: str) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 100_000))
    try:
        with pytest.raises(ValueError, match="nested"):
            jsontext.loads(text)
    finally:
        sys.setrecursionlimit(limit)


def test_brackets_in_texts_do_not_count() -> None:
    text = json.dumps(["[" * 1000, '"' + "{" * 1000, "\\"])
    assert jsontext.loads(text) == ["[" * 1000, '"' + "{" * 1000, "\\"]
