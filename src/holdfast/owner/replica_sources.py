"""Where else the content of a file may be had: replicas of it in other holdings."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from holdfast.errors import NodeError
from holdfast.owner.catalogue import FileRecord
from holdfast.owner.holding import Holding
from holdfast.owner.home import Home
from holdfast.owner.replica import Replica


@dataclass(frozen=True)
class Others:
    """Replicas whose nodes answer, and why each of the rest can't be asked, by holding."""

    replicas: list[Replica]
    away: dict[str, str]


@contextmanager
def other_replicas(home: Home, holding: Holding, file: FileRecord) -> Iterator[Others]:
    found = Others([], {})
    with ExitStack() as stack:
        for record in holding.catalogue.holdings():
            same = [f for f in holding.catalogue.files(record.name) if f.sha256 == file.sha256]
            if record.name == holding.name or not same:
                continue
            other = stack.enter_context(home.holding(record.name))
            try:
                other.node.facts()
                found.replicas.append(Replica(other, same[0]))
            except NodeError as error:
                found.away[record.name] = str(error)
        yield found
