"""For how many hours each node was reachable: from probes and challenges, over 30 days."""

import pytest
from sqlalchemy import Engine, func, insert, select

from holdfast.control.audits.contacts import Contacts
from holdfast.control.audits.reachability import DAYS, MAX_GAP
from holdfast.control.queries.nodes import Reachability, list_reachability
from holdfast.durations import DAY, HOUR, MINUTE
from holdfast.storage.database import transaction
from holdfast.storage.home_schema import catalogue
from holdfast.storage.schema import node_days

ONE, TWO = b"\x01" * 20, b"\x02" * 20
START = 20_000 * DAY


def probe(contacts: Contacts, letters: str, address: bytes = ONE, start: int = START) -> int:
    """Probe a node every hour, present at "." and away at "x"; return the moment of the last."""
    for number, letter in enumerate(letters):
        contacts.record_probe(address, start + number * HOUR, present=letter == ".")
    return start + (len(letters) - 1) * HOUR


def hours(engine: Engine, now: int, address: bytes = ONE) -> tuple[float, float]:
    """Return for how many hours a node was reachable, and was observed."""
    with transaction(engine) as connection:
        nodes = {node.address: node for node in list_reachability(connection, now)}
    node = nodes[f"0x{address.hex()}"]
    return node.reachable_hours, node.observed_hours


@pytest.mark.parametrize(
    ("letters", "reachable"),
    [(".", 0), ("...", 2), ("xxx", 0), ("..x", 1.5), ("x..", 1.5), (".xx.", 1), ("..xxx..", 3)],
)
def test_time_counts_by_what_was_seen_at_its_two_ends(
    engine: Engine, letters: str, reachable: float
) -> None:
    now = probe(Contacts(engine), letters)
    assert hours(engine, now) == (reachable, len(letters) - 1)


@pytest.mark.slow
def test_hours_are_of_the_last_30_days_and_older_days_go(engine: Engine) -> None:
    contacts = Contacts(engine)
    for day in range(DAYS + 5):
        probe(contacts, ".....x", start=START + day * DAY)  # then nobody looks until the next day
    now = START + (DAYS + 4) * DAY + 5 * HOUR
    assert hours(engine, now) == (4.5 * DAYS, 5 * DAYS)
    with transaction(engine) as connection:
        assert connection.execute(select(func.count()).select_from(node_days)).scalar() == DAYS
    assert hours(engine, now + 10 * DAY) == (4.5 * (DAYS - 10), 5 * (DAYS - 10)), "nobody looked"
    assert hours(engine, now + DAYS * DAY) == (0, 0)


def test_a_span_over_midnight_belongs_to_both_days(engine: Engine) -> None:
    contacts = Contacts(engine)
    contacts.record_probe(ONE, START - HOUR, present=True)
    contacts.record_probe(ONE, START + 2 * HOUR, present=True)
    with transaction(engine) as connection:
        rows = connection.execute(select(node_days.c.start, node_days.c.reachable)).all()
    assert dict(map(tuple, rows)) == {START - DAY: HOUR, START: 2 * HOUR}


def test_time_in_which_nobody_looked_does_not_count(engine: Engine) -> None:
    contacts = Contacts(engine)
    contacts.record_probe(ONE, START, present=True)
    contacts.record_probe(ONE, START + MAX_GAP + 1, present=True)
    assert hours(engine, START + MAX_GAP + 1) == (0, 0)
    rare = Contacts(engine, max_gap=DAY)
    rare.record_probe(ONE, START + MAX_GAP + 1 + DAY, present=True)
    assert hours(engine, START + 2 * DAY) == (24, 24)


def test_a_clock_that_is_set_back_undoes_nothing(engine: Engine) -> None:
    contacts = Contacts(engine)
    now = probe(contacts, "...")
    contacts.record_probe(ONE, now - 90 * MINUTE, present=False)
    assert hours(engine, now) == (2, 2)
    contacts.record_probe(ONE, now - 30 * MINUTE, present=True)
    assert hours(engine, now) == (2.5, 3)


def test_challenges_count_like_probes(engine: Engine) -> None:
    contacts = Contacts(engine)
    for number, present in enumerate((True, True, False, False)):
        contacts.record_challenges({ONE: present, TWO: True}, [], START + number * HOUR)
    assert hours(engine, START + 3 * HOUR) == (1.5, 3)
    assert hours(engine, START + 3 * HOUR, TWO) == (3, 3)


def test_an_absence_counts_only_if_we_were_online_ourselves(engine: Engine) -> None:
    contacts = Contacts(engine)
    contacts.record_challenges({ONE: True, TWO: True}, [], START)
    contacts.record_challenges({ONE: False, TWO: False}, [], START + HOUR)
    contacts.record_challenges({ONE: True, TWO: True}, [], START + 2 * HOUR)
    assert hours(engine, START + 2 * HOUR) == (2, 2)
    contacts.record_reached(TWO, START + 3 * HOUR - MINUTE)
    contacts.record_challenges({ONE: False}, [], START + 3 * HOUR)
    assert hours(engine, START + 3 * HOUR) == (2.5, 3)


def test_many_challenges_a_minute_are_written_once(engine: Engine) -> None:
    contacts = Contacts(engine)
    for number in range(130):
        contacts.record_challenges({ONE: True}, [], START + number * 1000)
    assert hours(engine, START + HOUR) == (round(2 / 60, 2), round(2 / 60, 2))


def test_the_least_reachable_comes_first_with_its_url(engine: Engine) -> None:
    contacts = Contacts(engine)
    now = probe(contacts, "....", ONE)
    probe(contacts, "..xx", TWO)
    row = {"salt": b"", "sectors": 1, "encrypted": False, "block": 0, "node": TWO}
    with transaction(engine) as connection:
        rows = [row | {"name": name, "url": "http://two.example"} for name in ("a", "b")]
        connection.execute(insert(catalogue), rows)
        listed = list_reachability(connection, now)
    assert listed == [
        Reachability(f"0x{TWO.hex()}", "http://two.example", False, 1.5, 3.0),
        Reachability(f"0x{ONE.hex()}", None, True, 3.0, 3.0),
    ]
    assert listed[0].share == 0.5


def test_a_node_that_is_gone_takes_its_hours_with_it(engine: Engine) -> None:
    contacts = Contacts(engine)
    now = probe(contacts, "...")
    contacts.enrol({TWO: now})
    with transaction(engine) as connection:
        assert [node.address for node in list_reachability(connection, now)] == [f"0x{TWO.hex()}"]
        assert connection.execute(select(func.count()).select_from(node_days)).scalar() == 0
