"""What all changes have in common: a request with a reason, and a sentence as the answer."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from holdfast.evidence.codecs import LONGEST_TEXT


class CommandRequest(BaseModel):
    """A change that is asked for; the reason is recorded in the evidence."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    reason: Annotated[str, Field(max_length=LONGEST_TEXT)] = ""


@dataclass(frozen=True)
class Done:
    done: str
    version: str | None = None  # of the policy that it is about
