"""The parameters of lists: a bounded number of rows, and marks at which the next page begins."""

import re
from typing import Annotated

from fastapi import Path, Query

from holdfast.control.queries.audits import Mark
from holdfast.web.errors import Code, WebRefusedError

MAX_ROWS = 200  # at once
MAX_SEARCH_LENGTH = 100  # characters
LARGEST = 2**53 - 1  # the largest whole number that every reader of JSON takes
_MARK = re.compile(r"(\d{1,16})-(\d{1,16})")

Limit = Annotated[int, Query(ge=1, le=MAX_ROWS, description="How many rows at most.")]
Page = Annotated[int, Query(ge=1, le=10**6, description="Which page, from 1.")]
Moment = Annotated[int, Query(ge=0, le=LARGEST, description="Milliseconds since 1970.")]
MarkText = Annotated[
    str, Query(max_length=33, pattern=_MARK.pattern, description="`next` of the page before.")
]
Id = Annotated[int, Path(ge=0, le=LARGEST)]


def write_mark(mark: Mark | None) -> str | None:
    return None if mark is None else f"{mark.order}-{mark.id}"


def read_mark(text: str | None) -> Mark | None:
    if text is None:
        return None
    match = _MARK.fullmatch(text)
    if match is None:
        raise WebRefusedError(Code.MALFORMED, "the mark is not one that a page has given")
    return Mark(int(match[1]), int(match[2]))
