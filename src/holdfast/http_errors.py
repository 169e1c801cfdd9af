"""The HTTP error layer: turns exceptions into a code for programs and a sentence for people.

The web server and the storage node share it; each has codes of its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from holdfast.errors import HoldfastError

C = TypeVar("C", bound=StrEnum)


@dataclass(frozen=True)
class ErrorCodes(Generic[C]):
    """Which code each kind of error has; the most specific kind counts."""

    malformed: C  # a request that can't be understood
    by_type: Mapping[type[Exception], C]
    statuses: Mapping[C, int]
    message_of: Callable[[Exception], str] = str

    def describe(self, error: Exception) -> tuple[C, str]:
        """Return the code and the message of an error."""
        if isinstance(error, RequestValidationError):
            return self.malformed, describe_validation(error.errors())
        if isinstance(error, HTTPException):
            by_status = {status: code for code, status in self.statuses.items()}
            return by_status.get(error.status_code, self.malformed), str(error.detail)
        message = self.message_of(error)
        if isinstance(error, ClientDisconnect):
            message = "the request ended before its body"
        code: C | None = getattr(error, "code", None)  # of a refusal
        if code is None:
            code = next(self.by_type[kind] for kind in type(error).__mro__ if kind in self.by_type)
        return code, message

    def install(self, app: FastAPI, answer: Callable[[Request, C, str], Response]) -> None:
        """Answer every error of an application by its code and message."""

        async def handle(request: Request, error: Exception) -> Response:
            return answer(request, *self.describe(error))

        ours = (HoldfastError, RequestValidationError, HTTPException, ClientDisconnect)
        for kind in ours:
            app.add_exception_handler(kind, handle)


def describe_validation(errors: Any) -> str:
    """Return the first thing that a validation refused."""
    first = errors[0]
    where = ".".join(str(step) for step in first["loc"]) or "the body"
    return f"{where}: {first['msg']}"
