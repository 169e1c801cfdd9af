"""How the API says no: a status, a code for programs and a sentence for people."""

from dataclasses import dataclass
from enum import StrEnum

from holdfast.errors import HoldfastError


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
