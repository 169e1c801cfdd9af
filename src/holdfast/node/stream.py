"""A long answer, or one range of it, streamed piece by piece."""

import re
from collections.abc import AsyncIterator

from fastapi import Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from holdfast.node.wire import Code, NodeRefusedError
from holdfast.pdp.readers import Reader

PIECE = 1 << 20
_RANGE = re.compile(r"bytes=(?P<first>\d{0,18})-(?P<last>\d{0,18})")


async def stream(reader: Reader, range_header: str | None) -> Response:
    """Return the bytes that a Range header asks for, or all.

    The first are read before we answer, so that lost bytes are reported and not just cut off.
    """
    size = reader.size()
    start, stop = (0, size) if range_header is None else _range(range_header, size)

    async def piece(at: int) -> bytes:
        ranges = [(at, min(PIECE, stop - at))]
        return bytes((await run_in_threadpool(reader.read_many, ranges))[0])

    first = await piece(start)

    async def pieces() -> AsyncIterator[bytes]:
        yield first
        for at in range(start + PIECE, stop, PIECE):
            yield await piece(at)

    headers = {"accept-ranges": "bytes", "content-length": str(stop - start)}
    if range_header is not None:
        headers["content-range"] = f"bytes {start}-{stop - 1}/{size}"
    return StreamingResponse(
        pieces(),
        status_code=200 if range_header is None else 206,
        media_type="application/octet-stream",
        headers=headers,
    )


def _range(range_header: str, size: int) -> tuple[int, int]:
    """Return the start and end of a single range of RFC 9110."""
    match = _RANGE.fullmatch(range_header)
    if match is None or not (match["first"] or match["last"]):
        raise NodeRefusedError(Code.RANGE, "a range is one of bytes, as in bytes=0-499")
    if not match["first"]:
        start, stop = max(0, size - int(match["last"])), size
    else:
        start = int(match["first"])
        stop = min(size, int(match["last"]) + 1) if match["last"] else size
    if not start < stop:
        raise NodeRefusedError(Code.RANGE, f"the range lies outside of the {size} bytes")
    return start, stop
