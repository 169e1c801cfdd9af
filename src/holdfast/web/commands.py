"""What is common to all changes: a reason goes in, a sentence comes out, a clash is told."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from holdfast.errors import InputError
from holdfast.evidence.codecs import LONGEST_TEXT
from holdfast.web.errors import Code, WebRefusedError


class CommandRequest(BaseModel):
    """A change that is asked for; the reason lands in the evidence."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    reason: Annotated[str, Field(max_length=LONGEST_TEXT)] = ""


@dataclass(frozen=True)
class Done:
    done: str
    version: str | None = None  # of the policy that it is about


@contextmanager
def carried_out() -> Iterator[None]:
    """Tell what can't be done as things stand as a conflict."""
    try:
        yield
    except InputError as error:
        raise WebRefusedError(Code.CONFLICT, str(error)) from error
