"""Contacts with nodes: whether each was present, at challenges and at probes.

On a chain a node can see that a challenge was opened before we ask it, and go offline just then. So
nodes are also probed at unpredictable times, and the two are compared: an honest node is away at a
challenge no more often than at a probe. A node is blamed only if an exact test says that this would
happen to an honest one with a probability of at most 1e-3, over all challenges that are kept.

A contact only counts if the node was present before it. Otherwise a long outage would count many
times, and more often at challenges: after an audit that reached nobody the next one comes soon.

The same contacts show for how many hours each node was reachable.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import comb
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from holdfast.control.audits.reachability import MAX_GAP, record_contact
from holdfast.durations import MINUTE
from holdfast.storage.database import transaction
from holdfast.storage.schema import node_days, nodes

MAX_CHALLENGES, MAX_PROBES = 64, 1024  # kept per node
MIN_AWAY, MIN_PROBES = 3, 20  # below which nothing is compared
TOTAL_LEVEL = 1e-3
LEVEL = TOTAL_LEVEL / MAX_CHALLENGES  # for a test after every challenge that reached nobody
PRESENT, AWAY = ".", "x"
WITNESS_TIME = 5 * MINUTE  # for which another node that was reached shows that we are online


@dataclass(frozen=True)
class Record:
    """Whether a node was present at the last challenges and probes.

    A letter stands for a contact, the newest last: "." for present and "x" for away.
    """

    present: bool | None = None  # at the last contact of any kind, if there was one
    challenges: str = ""
    probes: str = ""

    def with_challenge(self, *, present: bool) -> "Record":
        """Add a challenge before which the node was present."""
        challenges = self.challenges + (PRESENT if present else AWAY)
        return replace(self, challenges=challenges[-MAX_CHALLENGES:])

    def with_probe(self, *, present: bool) -> "Record":
        """Add a probe, which counts only if the node was present before it."""
        probes = self.probes + (PRESENT if present else AWAY) if self.present else self.probes
        return replace(self, present=present, probes=probes[-MAX_PROBES:])

    @property
    def chance(self) -> float:
        """The probability that an honest node is away at this many challenges, or more.

        This is Fisher's exact test: given how often the node was away at all, every contact is
        equally likely to be among those.
        """
        challenges, missed = len(self.challenges), self.challenges.count(AWAY)
        contacts, away = challenges + len(self.probes), missed + self.probes.count(AWAY)
        ways = sum(
            comb(away, count) * comb(contacts - away, challenges - count)
            for count in range(missed, min(away, challenges) + 1)
        )
        return ways / comb(contacts, challenges)

    @property
    def blamed(self) -> bool:
        """Whether the node is away far more often when it is challenged."""
        return self._enough and self.chance <= LEVEL

    @property
    def cleared(self) -> bool:
        """Whether a node that was blamed no longer is; a single pass is not enough."""
        return not self._enough or self.chance > TOTAL_LEVEL

    @property
    def _enough(self) -> bool:
        return self.challenges.count(AWAY) >= MIN_AWAY and len(self.probes) >= MIN_PROBES

    def __str__(self) -> str:
        return (
            f"away at {self.challenges.count(AWAY)} of {len(self.challenges)} challenges "
            f"but at {self.probes.count(AWAY)} of {len(self.probes)} probes"
        )


class Contacts:
    """The contacts with all nodes, shared by all workers."""

    def __init__(self, engine: Engine, *, max_gap: int = MAX_GAP) -> None:
        """Keep contacts; the time between two that are more than `max_gap` apart is not known."""
        self._engine, self._max_gap = engine, max_gap

    def present_nodes(self, addresses: Collection[bytes]) -> set[bytes]:
        """Return the nodes among these that were present at the last contact."""
        if not addresses:
            return set()
        query = select(nodes.c.address).where(nodes.c.address.in_(list(addresses)), nodes.c.present)
        with transaction(self._engine) as connection:
            return {bytes(address) for address in connection.execute(query).scalars()}

    def record_challenges(
        self, reached: Mapping[bytes, bool], compared: Sequence[bytes], now: int
    ) -> None:
        """Record which nodes took a challenge now, and whose challenge is compared with probes."""
        with transaction(self._engine) as connection:
            rows = _lock_rows(connection, reached)
            for row in rows:
                address = bytes(row.address)
                record = replace(_record(row), present=reached[address])
                if address in compared:
                    record = record.with_challenge(present=True)
                _write(connection, address, record, now if reached[address] else row.reached)
            self._sum_up(connection, rows, reached, now)

    def _sum_up(
        self, connection: Connection, rows: Sequence[Any], reached: Mapping[bytes, bool], now: int
    ) -> None:
        """Sum up for how long nodes were reachable; absences count if we were online ourselves."""
        for row in rows:
            present = reached[bytes(row.address)]
            if present or _others_reached(connection, row.address, now - WITNESS_TIME):
                record_contact(connection, row, now, reachable=present, max_gap=self._max_gap)

    def judge_absence(self, address: bytes, opened: int, asked: int, *, counted: bool) -> str:
        """Return why a node that no challenge reached counts as failing; "" if it does not.

        `opened` is when the challenge was opened, `asked` is when we last tried.
        """
        with transaction(self._engine) as connection:
            (row,) = _lock_rows(connection, [address])
            record = _record(row)
            if counted and _others_reached(connection, address, opened):
                record = record.with_challenge(present=False)
                _write(connection, address, record, row.reached)
        if opened < row.reached < asked:
            return "the node took another request after the challenge was opened"
        return str(record) if record.blamed else ""

    def record_probe(self, address: bytes, now: int, *, present: bool) -> None:
        """Record a probe: it reached the node, or nobody while other nodes were reachable."""
        with transaction(self._engine) as connection:
            (row,) = _lock_rows(connection, [address])
            record = _record(row).with_probe(present=present)
            _write(connection, address, record, now if present else row.reached)
            record_contact(connection, row, now, reachable=present, max_gap=self._max_gap)

    def record_reached(self, address: bytes, now: int) -> None:
        """Record that a node took a request other than a challenge or a probe of its own."""
        with transaction(self._engine) as connection:
            connection.execute(update(nodes).where(nodes.c.address == address).values(reached=now))

    def records_away(self) -> dict[bytes, Record]:
        """Return the records of nodes that were away at any challenge."""
        query = select(nodes).where(nodes.c.challenges.contains(AWAY))
        with transaction(self._engine) as connection:
            rows = connection.execute(query).all()
        return {bytes(row.address): _record(row) for row in rows}

    def enrol(self, due_at: Mapping[bytes, int]) -> None:
        """Plan a probe of new nodes, and delete those that are not among these."""
        with transaction(self._engine) as connection:
            rows = connection.execute(select(nodes.c.address, nodes.c.probe_due)).all()
            known = {bytes(row.address): row.probe_due for row in rows}
            gone = [address for address in known if address not in due_at]
            if gone:
                for table in (nodes, node_days):
                    connection.execute(delete(table).where(table.c.address.in_(gone)))
            _enter(connection, [address for address in due_at if address not in known])
            for address in sorted(due_at):
                if not known.get(address):
                    _plan(connection, address, 0, due_at[address])

    def claim_probes(self, now: int, limit: int, pause: Callable[[], int]) -> list[bytes]:
        """Claim up to `limit` nodes that are due for a probe; the next probe is after a `pause`."""
        due = select(nodes.c.address, nodes.c.probe_due).where(nodes.c.probe_due.between(1, now))
        with transaction(self._engine) as connection:
            rows = connection.execute(due.order_by(nodes.c.probe_due).limit(limit)).all()
            return [
                bytes(row.address)
                for row in rows
                if _plan(connection, row.address, row.probe_due, now + pause())
            ]


def _plan(connection: Connection, address: bytes, before: int, due: int) -> bool:
    """Plan the next probe of a node; return False if another worker has done so."""
    ours = update(nodes).where(nodes.c.address == address, nodes.c.probe_due == before)
    return connection.execute(ours.values(probe_due=due)).rowcount == 1


def _lock_rows(connection: Connection, addresses: Iterable[bytes]) -> Sequence[Any]:
    """Return the rows of nodes, which nobody else changes until the transaction ends."""
    wanted = sorted(addresses)
    query = select(nodes).where(nodes.c.address.in_(wanted)).order_by(nodes.c.address)
    rows = connection.execute(query.with_for_update()).all()
    if len(rows) < len(wanted):
        known = {bytes(row.address) for row in rows}
        _enter(connection, [address for address in wanted if address not in known])
        rows = connection.execute(query.with_for_update()).all()
    return rows


def _others_reached(connection: Connection, address: bytes, since: int) -> bool:
    """Return whether another node was reached since then, if there is one.

    If none was, we may have been offline ourselves.
    """
    others = select(func.max(nodes.c.reached)).where(nodes.c.address != address)
    last = connection.execute(others).scalar()
    return last is None or last >= since


def _enter(connection: Connection, addresses: Sequence[bytes]) -> None:
    """Enter nodes, unless another worker has done so."""
    if addresses:
        dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
        insert = dialect.insert(nodes).on_conflict_do_nothing()
        connection.execute(insert, [{"address": address} for address in sorted(addresses)])


def _record(row: Any) -> Record:
    return Record(row.present, row.challenges, row.probes)


def _write(connection: Connection, address: bytes, record: Record, reached: int) -> None:
    values = {**asdict(record), "reached": reached}
    connection.execute(update(nodes).where(nodes.c.address == address).values(**values))
