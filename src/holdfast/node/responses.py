"""A node's answers parsed: a message of a known kind, or the reason of a refusal."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import httpx
from pydantic import ValidationError

from holdfast.errors import InputError, NodeError
from holdfast.node.wire import Code, Message, Reason, Refusal

MAX_REASON_LETTERS = 500  # of a node's reason that are passed on

M = TypeVar("M", bound=Message)


@contextmanager
def expect_valid(url: str) -> Iterator[None]:
    """Raise `NodeError` if the answer that is parsed within makes no sense."""
    try:
        yield
    except InputError as error:
        raise NodeError(f"the answer from {url} makes no sense: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        what = f"{where}: {first['msg']}" if where else first["msg"]
        raise NodeError(f"the answer from {url} makes no sense: {what}") from error


def parse_message(kind: type[M], answer: httpx.Response) -> M:
    """Return the answer as a message of this kind."""
    with expect_valid(str(answer.url)):
        return kind.model_validate_json(answer.content)


def refusal_reason(answer: httpx.Response) -> Reason:
    try:
        reason = Refusal.model_validate_json(answer.content).error
    except ValidationError as error:
        raise NodeError(f"{answer.url} answered with status {answer.status_code}") from error
    # A node's text reaches terminals and logs: keep one line of printable letters.
    plain = "".join(letter if letter.isprintable() else " " for letter in reason.message)
    return reason.model_copy(update={"message": plain[:MAX_REASON_LETTERS]})


def refusal_code(reason: Reason, url: str) -> Code:
    try:
        return Code(reason.code)
    except ValueError as error:
        raise NodeError(f"{url} refused ({reason.code}): {reason.message}") from error
