"""Replicas of a file in other holdings, from which its content can be restored."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from holdfast.errors import NodeError
from holdfast.owner.catalogue import FileRecord
from holdfast.owner.holding import Holding
from holdfast.owner.home import Home
from holdfast.owner.replica import Replica


@dataclass(frozen=True)
class ReplicaSources:
    """Replicas whose nodes answer, and the errors of those that don't, by holding."""

    replicas: list[Replica]
    unreachable: dict[str, str]


@contextmanager
def other_replicas(home: Home, holding: Holding, file: FileRecord) -> Iterator[ReplicaSources]:
    sources = ReplicaSources([], {})
    with ExitStack() as stack:
        for record in holding.catalogue.holdings():
            same = [f for f in holding.catalogue.files(record.name) if f.sha256 == file.sha256]
            if record.name == holding.name or not same:
                continue
            other = stack.enter_context(home.holding(record.name))
            try:
                other.node.facts()
                sources.replicas.append(Replica(other, same[0]))
            except NodeError as error:
                sources.unreachable[record.name] = str(error)
        yield sources
