"""How lists are asked for: pages of a bounded size, and marks from which a list goes on."""

import re
from typing import Annotated, Any

from fastapi import Path, Query
from sqlalchemy import ColumnElement, tuple_

from holdfast.web.errors import Code, WebRefusedError

MOST = 200  # rows at once
LARGEST = 2**53 - 1  # what every reader of JSON takes as a whole number
_MARK = re.compile(r"(\d{1,16})-(\d{1,16})")

Limit = Annotated[int, Query(ge=1, le=MOST, description="How many rows at most.")]
Page = Annotated[int, Query(ge=1, le=10**6, description="Which page, from 1.")]
Moment = Annotated[int, Query(ge=0, le=LARGEST, description="Milliseconds since 1970.")]
Mark = Annotated[
    str, Query(max_length=33, pattern=_MARK.pattern, description="`next` of the page before.")
]
Id = Annotated[int, Path(ge=0, le=LARGEST)]


def mark(*values: int) -> str:
    return "-".join(str(value) for value in values)


def below(first: Any, second: Any, given: str) -> ColumnElement[bool]:
    """Return what selects the rows after a mark, when both columns are in falling order."""
    found = _MARK.fullmatch(given)
    if found is None:
        raise WebRefusedError(Code.MALFORMED, "the mark is not one that a page has given")
    return tuple_(first, second) < tuple_(int(found[1]), int(found[2]))
