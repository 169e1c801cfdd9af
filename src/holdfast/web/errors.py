"""How the API refuses a request: a status, a code for programs and a sentence for people."""

from dataclasses import dataclass
from enum import StrEnum

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from holdfast.errors import (
    BusyError,
    ConflictError,
    HoldfastError,
    InputError,
    MalformedError,
    NotFoundError,
)
from holdfast.http_errors import ErrorCodes


class Code(StrEnum):
    MALFORMED = "malformed"
    UNKNOWN_CALLER = "unknown-caller"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not-found"
    METHOD = "method-not-allowed"
    CONFLICT = "conflict"
    TOO_LARGE = "too-large"
    NO_JSON = "not-json"
    BUSY = "busy"
    STORAGE = "storage"


STATUS = {
    Code.MALFORMED: 400,
    Code.UNKNOWN_CALLER: 401,
    Code.FORBIDDEN: 403,
    Code.NOT_FOUND: 404,
    Code.METHOD: 405,
    Code.CONFLICT: 409,
    Code.TOO_LARGE: 413,
    Code.NO_JSON: 415,
    Code.BUSY: 429,
    Code.STORAGE: 503,
}
HEADERS = {
    Code.UNKNOWN_CALLER: {"www-authenticate": "Bearer"},
    Code.BUSY: {"retry-after": "60"},
}
ERRORS = ErrorCodes(
    Code.MALFORMED,
    {
        BusyError: Code.BUSY,
        NotFoundError: Code.NOT_FOUND,
        ConflictError: Code.CONFLICT,
        MalformedError: Code.CONFLICT,  # requests are validated before: stored data is damaged
        InputError: Code.MALFORMED,
        HoldfastError: Code.STORAGE,
        ClientDisconnect: Code.MALFORMED,
    },
    STATUS,
)


@dataclass(frozen=True)
class Reason:
    code: Code
    message: str


@dataclass(frozen=True)
class Refusal:
    error: Reason


class WebRefusedError(HoldfastError):
    """The API refuses a request."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


def add_error_handlers(app: FastAPI) -> None:
    ERRORS.install(app, _answer)


def _answer(_request: Request, code: Code, message: str) -> Response:
    content = {"error": {"code": code, "message": message}}
    return JSONResponse(content, STATUS[code], HEADERS.get(code))
