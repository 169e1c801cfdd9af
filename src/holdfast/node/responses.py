"""A node's answers parsed: a message of a known kind, or a refusal."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import httpx
from pydantic import ValidationError

from holdfast.errors import InputError, NodeError
from holdfast.node.wire import Code, Message, NodeRefusedError, Reason, Refusal

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


def refusal_of(answer: httpx.Response) -> Reason:
    """Return why the node refused a whole request."""
    try:
        return Refusal.model_validate_json(answer.content).error
    except ValidationError as error:
        raise NodeError(f"{answer.url} answered with status {answer.status_code}") from error


def refusal_error(reason: Reason, url: str) -> NodeRefusedError | NodeError:
    """Return a node's refusal as an error, with its code if that is one."""
    message = _plain(reason.message)
    try:
        return NodeRefusedError(Code(reason.code), message)
    except ValueError:
        return NodeError(f"{url} refused ({_plain(reason.code)}): {message}")


def _plain(text: str) -> str:
    """Return one line of printable letters: a node's text reaches terminals and logs."""
    plain = (letter if letter.isprintable() else " " for letter in text[:MAX_REASON_LETTERS])
    return "".join(plain)
