"""Alerts are raised once, ended once and told once, to a real receiver, on both databases."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, update
from tests.support.simulated_fleet import Clock
from tests.support.webhook import Receiver, listening

from holdfast.control.incidents.alerts import DELIVERY_LEASE, Alerts, Kind
from holdfast.control.settings.models import AlertSettings, read_control
from holdfast.durations import HOUR
from holdfast.errors import InputError
from holdfast.storage import schema
from holdfast.storage.database import transaction


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with listening() as server:
        yield server


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def alerts(engine: Engine, clock: Clock) -> Alerts:
    return Alerts(engine, clock)


@pytest.mark.slow
def test_an_alert_is_raised_once_while_it_is_open(alerts: Alerts, clock: Clock) -> None:
    assert alerts.raise_alert(Kind.NODE, "one", "it does not answer")
    clock.now += HOUR
    assert not alerts.raise_alert(Kind.NODE, "one", "it still does not answer")
    assert [each.seen - each.raised for each in alerts.listing()] == [HOUR]
    assert alerts.raise_alert(Kind.NODE, "two", "it does not answer")
    assert [(a.subject, a.detail) for a in alerts.listing()] == [
        ("two", "it does not answer"),
        ("one", "it does not answer"),
    ]


def test_what_ended_can_be_raised_again(alerts: Alerts, clock: Clock) -> None:
    for _ in range(2):  # at the same moment of a slow clock, too
        assert alerts.raise_alert(Kind.LEDGER, "chain", "down")
        assert alerts.end(Kind.LEDGER, "chain")
        assert not alerts.end(Kind.LEDGER, "chain")
    assert alerts.listing() == []
    assert [each.ended for each in alerts.listing(ended=True)] == [clock.now] * 2


def test_an_alert_does_not_end_before_it_was_raised(alerts: Alerts, clock: Clock) -> None:
    alerts.raise_alert(Kind.NODE, "one", "it does not answer")
    clock.now -= HOUR
    alerts.end(Kind.NODE, "one")
    (alert,) = alerts.listing(ended=True)
    assert alert.ended == alert.raised


@pytest.mark.slow
def test_a_message_fits_chat_rooms_and_receivers_of_alertmanager(
    alerts: Alerts, clock: Clock, receiver: Receiver
) -> None:
    alerts.raise_alert(Kind.NODE, "one", "it does not answer " * 200)
    alerts.deliver(receiver.sink)
    clock.now += HOUR
    alerts.end(Kind.NODE, "one")
    alerts.deliver(receiver.sink)
    raised, ended = receiver.bodies
    assert raised["text"].startswith("Holdfast: raised: node offline: one: it does not answer")
    assert raised["content"] == raised["text"][:2000], "Discord refuses more"
    assert (raised["version"], raised["status"], ended["status"]) == ("4", "firing", "resolved")
    (firing,), (resolved,) = raised["alerts"], ended["alerts"]
    assert firing["labels"]["alertname"] == "HoldfastNodeOffline"
    assert firing["startsAt"] == resolved["startsAt"] == "2027-01-15T00:00:00.000Z"
    assert firing["endsAt"].startswith("0001")
    assert resolved["endsAt"] == "2027-01-15T01:00:00.000Z"
    assert firing["fingerprint"] == resolved["fingerprint"]


@pytest.mark.slow
def test_what_is_told_late_was_firing_first(
    alerts: Alerts, clock: Clock, receiver: Receiver
) -> None:
    alerts.raise_alert(Kind.NODE, "one", "it does not answer")
    clock.now += HOUR
    alerts.end(Kind.NODE, "one")
    alerts.deliver(receiver.sink)
    alerts.deliver(receiver.sink)
    assert [body["alerts"][0]["status"] for body in receiver.bodies] == ["firing", "resolved"]


@pytest.mark.slow
def test_an_opening_and_a_closing_are_told_once_each(
    alerts: Alerts, clock: Clock, receiver: Receiver
) -> None:
    alerts.raise_alert(Kind.NODE, "one", "it does not answer")
    assert [alerts.deliver(receiver.sink) for _ in range(3)] == [1, 0, 0]
    clock.now += HOUR
    alerts.end(Kind.NODE, "one")
    assert [alerts.deliver(receiver.sink) for _ in range(3)] == [1, 0, 0]
    raised, ended = receiver.bodies
    told = {
        "text": "Holdfast: raised: node offline: one: it does not answer",
        "id": 1,
        "state": "raised",
        "kind": "node-offline",
        "subject": "one",
        "detail": "it does not answer",
        "raised": clock.now - HOUR,
        "ended": None,
    }
    assert told.items() <= raised.items()
    assert (ended["state"], ended["ended"]) == ("ended", clock.now)


@pytest.mark.slow
def test_what_becomes_known_of_an_open_alert_is_told_too(
    alerts: Alerts, engine: Engine, receiver: Receiver
) -> None:
    def learn(detail: str) -> None:
        with transaction(engine) as connection:
            connection.execute(update(schema.alerts).values(detail=detail, changed=True))

    alerts.raise_alert(Kind.NODE, "one", "it is slow")
    learn("it is very slow")
    assert [alerts.deliver(receiver.sink) for _ in range(3)] == [1, 0, 0]
    learn("it does not answer")
    assert [alerts.deliver(receiver.sink) for _ in range(3)] == [1, 0, 0]
    learn("it is gone")
    alerts.end(Kind.NODE, "one")
    assert [alerts.deliver(receiver.sink) for _ in range(3)] == [1, 0, 0]
    assert [(body["state"], body["detail"]) for body in receiver.bodies] == [
        ("raised", "it is very slow"),
        ("changed", "it does not answer"),
        ("ended", "it is gone"),
    ]


@pytest.mark.slow
def test_what_becomes_known_while_a_message_is_sent_is_not_lost(
    alerts: Alerts, engine: Engine, receiver: Receiver
) -> None:
    alerts.raise_alert(Kind.NODE, "one", "it is slow")

    class Slow:
        def send(self, message: Any) -> bool:
            with transaction(engine) as connection:
                connection.execute(update(schema.alerts).values(detail="gone", changed=True))
            return receiver.sink.send(message)

    assert alerts.deliver(Slow()) == 1
    assert [alerts.deliver(receiver.sink) for _ in range(2)] == [1, 0]
    assert [body["detail"] for body in receiver.bodies] == ["it is slow", "gone"]


@pytest.mark.slow
def test_what_was_not_delivered_is_told_later_and_in_order(
    alerts: Alerts, clock: Clock, receiver: Receiver
) -> None:
    alerts.raise_alert(Kind.NODE, "one", "it does not answer")
    receiver.status = 503
    assert alerts.deliver(receiver.sink) == 0
    alerts.end(Kind.NODE, "one")
    receiver.status = 200
    for _ in range(3):
        clock.now += DELIVERY_LEASE
        alerts.deliver(receiver.sink)
    assert [each["state"] for each in receiver.bodies] == ["raised", "ended"]


@pytest.mark.slow
def test_two_workers_do_not_tell_the_same(
    alerts: Alerts, clock: Clock, engine: Engine, receiver: Receiver
) -> None:
    alerts.raise_alert(Kind.NODE, "one", "it does not answer")

    class Slow:
        """Is still at it when another worker looks for what to tell."""

        def send(self, message: Any) -> bool:
            assert Alerts(engine, clock).deliver(receiver.sink) == 0
            return receiver.sink.send(message)

    assert alerts.deliver(Slow()) == 1
    assert len(receiver.bodies) == 1


@pytest.mark.slow
def test_a_claim_from_a_clock_since_set_back_binds_nobody(
    alerts: Alerts, clock: Clock, receiver: Receiver
) -> None:
    alerts.raise_alert(Kind.NODE, "one", "it does not answer")
    receiver.status = 503
    alerts.deliver(receiver.sink)
    receiver.status = 200
    clock.now -= HOUR
    assert alerts.deliver(receiver.sink) == 1


@pytest.mark.slow
def test_nobody_listening_is_a_message_that_did_not_arrive(alerts: Alerts) -> None:
    alerts.raise_alert(Kind.NODE, "one", "it does not answer")
    with listening() as gone:
        sink = gone.sink
    assert alerts.deliver(sink) == 0


def test_where_alerts_go_is_set_in_the_home(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.toml"
    path.write_text('[control.alerts]\nwebhook = "https://host/a/secret"\noverdue = "2 hours"\n')
    assert read_control(tmp_path).alerts == AlertSettings("https://host/a/secret", 2 * HOUR)


@pytest.mark.parametrize("webhook", ["host/a/secret", "ftp://host/secret", "https:///secret"])
def test_an_address_that_is_none_of_http_is_refused_and_not_told(
    webhook: str, tmp_path: Path
) -> None:
    (tmp_path / "holdfast.toml").write_text(f'[control.alerts]\nwebhook = "{webhook}"\n')
    with pytest.raises(InputError, match="an address of HTTP") as caught:
        read_control(tmp_path)
    assert "secret" not in str(caught.value)
