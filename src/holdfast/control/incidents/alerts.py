"""Alerts: each is raised once, ended once, and delivered once; changes are delivered, too.

Any number of workers may notice the same problem. There is at most one open alert of a kind and a
subject.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Protocol

import httpx
from sqlalchemy import ColumnElement, Engine, case, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from holdfast.durations import SECOND
from holdfast.storage.database import transaction
from holdfast.storage.schema import NEVER, alerts

MAX_DELIVERIES = 8  # in one call
DELIVERY_LEASE = 60 * SECOND  # for which one worker delivers an alert, and until the next try
RAISED, CHANGED, ENDED = "raised", "changed", "ended"
MAX_DISCORD_CHARACTERS = 2000
NOT_ENDED = "0001-01-01T00:00:00Z"  # as Alertmanager writes the end of a firing alert
TIMEOUT_SECONDS = 5.0  # for a message: all deliveries must fit into DELIVERY_LEASE


class Kind(StrEnum):
    LEDGER = "ledger-unreachable"
    NODE = "node-offline"
    EVASION = "node-away-when-challenged"
    DATABASE = "database-trouble"
    DISK = "disk-full"
    CLOCK = "clock-stepped"
    CHAIN = "chain-reorganised"
    SETTINGS = "settings-unusable"
    OVERDUE = "audits-overdue"
    SHADOW = "shadow-unusable"
    STANDSTILL = "work-stands-still"
    RETRAINING = "retraining-failed"
    STORAGE = "storage-not-checked"
    COVERAGE = "coverage-behind"


@dataclass(frozen=True)
class Alert:
    id: int
    kind: str
    subject: str
    detail: str
    raised: int
    seen: int  # when its cause was last seen
    ended: int | None
    acknowledged: int | None = None
    acknowledged_by: str | None = None


@dataclass(frozen=True)
class Message:
    """What is sent: one format for chat rooms, receivers of Alertmanager and programs.

    Id, state and detail identify a message. One that is sent twice, because a worker died before
    it could record the delivery, has the same.
    """

    alert: Alert
    state: str

    def fields(self) -> dict[str, Any]:
        alert = self.alert
        words = f"{self.state}: {alert.kind.replace('-', ' ')}: {alert.subject}: {alert.detail}"
        text = f"Holdfast: {words}"
        return {
            "text": text,  # Slack, Mattermost, Rocket.Chat, Zulip
            "content": text[:MAX_DISCORD_CHARACTERS],
            "id": alert.id,
            "state": self.state,
            "kind": alert.kind,
            "subject": alert.subject,
            "detail": alert.detail,
            "raised": alert.raised,
            "ended": alert.ended,
            **self._alertmanager_fields(text),
        }

    def _alertmanager_fields(self, text: str) -> dict[str, Any]:
        """Return what Alertmanager would post, in version 4 of its format."""
        alert = self.alert
        ended = alert.ended if self.state == ENDED else None
        status = "firing" if ended is None else "resolved"
        name = "".join(part.capitalize() for part in ("holdfast", *alert.kind.split("-")))
        labels = {"alertname": name, "kind": alert.kind, "subject": alert.subject}
        annotations = {"summary": text, "description": alert.detail}
        entry = {
            "status": status,
            "labels": labels,
            "annotations": annotations,
            "startsAt": _rfc3339(alert.raised),
            "endsAt": NOT_ENDED if ended is None else _rfc3339(ended),
            "generatorURL": "",
            "fingerprint": hashlib.sha256(f"{alert.kind} {alert.subject}".encode()).hexdigest()[
                :16
            ],
        }
        return {
            "version": "4",
            "groupKey": f"holdfast/{alert.kind}/{alert.subject}",
            "truncatedAlerts": 0,
            "status": status,
            "receiver": "holdfast",
            "groupLabels": {"alertname": name},
            "commonLabels": labels,
            "commonAnnotations": annotations,
            "externalURL": "",
            "alerts": [entry],
        }


class Sink(Protocol):
    def send(self, message: Message) -> bool:
        """Deliver a message in bounded time; return whether it arrived."""


class Webhook:
    """Posts each message as JSON. The address may be a secret, so it is never shown."""

    def __init__(self, url: str) -> None:
        self._url = url

    def send(self, message: Message) -> bool:
        try:
            # The response's body is not read: it might never end.
            fields = message.fields()
            with httpx.stream("POST", self._url, json=fields, timeout=TIMEOUT_SECONDS) as response:
                return response.is_success
        except (httpx.HTTPError, httpx.InvalidURL):
            return False


class Alerts:
    def __init__(self, engine: Engine, clock: Callable[[], int]) -> None:
        self._engine, self._clock = engine, clock

    def raise_alert(self, kind: str, subject: str, detail: str) -> bool:
        """Raise an alert, or note that the open one still applies; return whether it is new."""
        now = self._clock()
        row = {"kind": kind, "subject": subject, "detail": detail, "raised": now, "seen": now}
        try:
            with transaction(self._engine) as connection:
                still = update(alerts).where(*_open(kind, subject)).values(seen=now)
                if connection.execute(still).rowcount:
                    return False
                connection.execute(insert(alerts), [row])
        except IntegrityError:  # another worker was quicker
            return False
        return True

    def end(self, kind: str, subject: str) -> bool:
        """End the open alert of that kind and subject; return whether there was one."""
        now = self._clock()
        ended = case(
            (alerts.c.raised > now, alerts.c.raised), else_=now
        )  # the clock may have been set back
        with transaction(self._engine) as connection:
            query = update(alerts).where(*_open(kind, subject)).values(ended=ended)
            return connection.execute(query).rowcount > 0

    def listing(self, *, ended: bool = False, limit: int = 1000) -> list[Alert]:
        """Return the open alerts, or all of them, the newest first."""
        query = select(*(alerts.c[name] for name in Alert.__dataclass_fields__))
        if not ended:
            query = query.where(alerts.c.ended == NEVER)
        with transaction(self._engine) as connection:
            rows = connection.execute(query.order_by(alerts.c.id.desc()).limit(limit)).all()
        return [_alert(row) for row in rows]

    def deliver(self, sink: Sink) -> int:
        """Deliver what is pending, up to the first failure; return how many were delivered."""
        delivered = 0
        for row in self._claim():
            open_state = CHANGED if row.ended == NEVER else ENDED
            message = Message(_alert(row), open_state if row.told else RAISED)
            if not sink.send(message):
                break
            ours = update(alerts).where(alerts.c.id == row.id, alerts.c.told == row.told)
            newer = alerts.c.changed & (alerts.c.detail != row.detail)
            count = row.told + (message.state != CHANGED)
            with transaction(self._engine) as connection:
                connection.execute(ours.values(told=count, changed=newer, telling=0))
            delivered += 1
        return delivered

    def _claim(self) -> list[Any]:
        """Take the next messages for this worker alone; return their alerts, the oldest first."""
        now = self._clock()
        wanted = case((alerts.c.ended == NEVER, 1), else_=2)
        # A claim that lies too far ahead is from a clock that was set back since.
        free = or_(alerts.c.telling <= now, alerts.c.telling > now + DELIVERY_LEASE)
        due = or_(alerts.c.told < wanted, alerts.c.changed & (alerts.c.ended == NEVER))
        pending = select(alerts.c.id).where(due, free)
        some = pending.order_by(alerts.c.id).limit(MAX_DELIVERIES).with_for_update(skip_locked=True)
        taken = update(alerts).where(alerts.c.id.in_(some.scalar_subquery()))
        with transaction(self._engine) as connection:
            rows = connection.execute(
                taken.values(telling=now + DELIVERY_LEASE).returning(alerts)
            ).all()
        return sorted(rows, key=lambda row: row.id)


def _open(kind: str, subject: str) -> tuple[ColumnElement[bool], ...]:
    return (alerts.c.kind == kind, alerts.c.subject == subject, alerts.c.ended == NEVER)


def _alert(row: Any) -> Alert:
    values = {name: getattr(row, name) for name in Alert.__dataclass_fields__}
    return Alert(**values | {"ended": None if row.ended == NEVER else row.ended})


def _rfc3339(moment: int) -> str:
    written = datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec="milliseconds")
    return written.replace("+00:00", "Z")
