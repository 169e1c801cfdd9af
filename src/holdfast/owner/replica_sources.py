"""Replicas of a file in other holdings, from which its content can be restored."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from holdfast.errors import NodeError
from holdfast.owner.catalogue import FileRecord
from holdfast.owner.holding import Holding
from holdfast.owner.home import Home
from holdfast.owner.replica import Replica

GREETING_SECONDS = 5.0  # for a node to say that it is there


@dataclass(frozen=True)
class ReplicaSources:
    """Replicas whose nodes answer, and the errors of those that don't, by holding."""

    replicas: list[Replica]
    unreachable: dict[str, str]


@contextmanager
def other_replicas(home: Home, holding: Holding, file: FileRecord) -> Iterator[ReplicaSources]:
    sources = ReplicaSources([], {})
    away: dict[bytes, str] = {}  # nodes that did not answer, and why
    with ExitStack() as stack:
        same = holding.catalogue.files_with(file.sha256)
        for name in sorted(same.keys() - {holding.name}):
            other = stack.enter_context(home.holding(name, holding.catalogue))
            node = other.record.node
            try:
                if node not in away:
                    other.node.facts(seconds=GREETING_SECONDS)
                    sources.replicas.append(Replica(other, same[name]))
            except NodeError as error:
                away[node] = str(error)
            if node in away:
                sources.unreachable[name] = away[node]
        yield sources
