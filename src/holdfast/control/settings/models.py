"""The table `[control]` of the home's `holdfast.toml`: everything an operator can set, checked.

[control]
database = "control.db"            # a file in the home, or postgresql://host/name; [home]'s, if any
policy = "drqn-cmdp-plus"
scenario = "field"
settlement = "batch"               # the ledger hears of all that are due at once, or "single"
[control.rails]
unit = "1 day"
surprise = 0.1                     # share of audits that come early, at any time
quiet = ["22:00-06:00"]
[control.patience]
deadline = "1 hour"
[control.probes]
every = "1 hour"                   # how often every node is probed, on average and at random
[control.alerts]
webhook = "https://host/path"      # where alerts are posted as JSON
overdue = "1 hour"                 # how late an audit may be before there is one
[control.responses]
failed = ["follow-up", "localise", "repair", "follow-up", "quarantine", "alert"]
delay = "at once"
[control.promotion]
ceiling = 0.05                     # of the miss rate, for a version that is to decide
[control.metrics]
listen = "127.0.0.1:9470"
[control.retraining]
every = "30 days"                  # never, unless it is set
[control.web]
listen = "127.0.0.1:9471"          # or "off"
origin = "https://audits.example.org"  # as browsers see it behind a proxy that speaks TLS
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from holdfast import atomic
from holdfast.control.audits.prober import ProbeSettings
from holdfast.control.audits.runner import SettlementMode
from holdfast.control.audits.settlement import Timeouts
from holdfast.control.incidents.responder import Responses
from holdfast.control.incidents.store import Step
from holdfast.control.inference.retraining import RetrainingSettings
from holdfast.control.policies.promotion import Conditions
from holdfast.control.scheduling.guardrails import DAY, HOUR, MINUTE, SECOND, Rails, Window
from holdfast.control.scheduling.worker import Pace
from holdfast.errors import InputError
from holdfast.model.action import Action
from holdfast.model.scenario import SCENARIOS, Scenario
from holdfast.owner.settings import home_database

MAX_SETTINGS_BYTES = 1 << 16
_UNITS = {"second": SECOND, "minute": MINUTE, "hour": HOUR, "day": DAY}
_HOST = re.compile(r"[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*")
_DURATION = re.compile(r"(\d{1,9}) (second|minute|hour|day)s?")

T = TypeVar("T")


@dataclass(frozen=True)
class Upkeep:
    """What is done beside audits, and how often."""

    enrol: int = 30 * SECOND  # looking for new holdings
    anchor: int = 6 * HOUR  # putting the evidence's root on the ledger
    idle: int = SECOND  # looking for due holdings, at least so often


@dataclass(frozen=True)
class AlertSettings:
    webhook: str | None = None
    overdue: int = HOUR


@dataclass(frozen=True)
class MetricsSettings:
    """Where Prometheus finds the figures: a host and a port, nowhere by default."""

    listen: tuple[str, int] | None = None


@dataclass(frozen=True)
class WebSettings:
    """Where the API and the dashboard are served, and whom they trust."""

    listen: tuple[str, int] | None = ("127.0.0.1", 9471)  # port 0 is any
    hosts: tuple[str, ...] = ()  # names that it is called by, beside addresses and localhost
    # Whether callers on this machine are admins. Unset: yes, unless `origin` or `hosts` is set.
    trust_loopback: bool | None = None
    origin: str | None = None  # as browsers see it behind a proxy that speaks TLS

    @property
    def behind_proxy(self) -> bool:
        """Whether a proxy may stand before it, behind which every caller is on loopback."""
        return self.origin is not None or bool(self.hosts)


@dataclass(frozen=True)
class ControlSettings:
    database: str = "control.db"
    policy: str = "drqn-cmdp-plus"
    scenario: Scenario = SCENARIOS["field"]
    settlement: SettlementMode = SettlementMode.BATCH
    rails: Rails = field(default_factory=Rails)
    patience: Timeouts = field(default_factory=Timeouts)
    pace: Pace = field(default_factory=Pace)
    upkeep: Upkeep = field(default_factory=Upkeep)
    probes: ProbeSettings = field(default_factory=ProbeSettings)
    alerts: AlertSettings = field(default_factory=AlertSettings)
    responses: Responses = field(default_factory=Responses)
    promotion: Conditions = field(default_factory=Conditions)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    retraining: RetrainingSettings = field(default_factory=RetrainingSettings)
    web: WebSettings = field(default_factory=WebSettings)

    def address(self, home: Path) -> str:
        return self.database if "://" in self.database else str(home / self.database)


def read_control(home: Path) -> ControlSettings:
    """Return what `holdfast.toml` says of the control plane, the defaults where it is silent."""
    path = home / "holdfast.toml"
    if not path.exists():
        return ControlSettings()
    try:
        document = tomllib.loads(atomic.read(path, at_most=MAX_SETTINGS_BYTES).decode())
    except ValueError as error:
        raise InputError(f"{path} is not TOML: {error}") from error
    shared = home_database(path, document.get("home", {}))
    try:
        return _settings(document.get("control", {}), shared)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def read_duration(text: str) -> int:
    """Return a time as the settings write it, in milliseconds."""
    return _duration(text)


def _settings(table: Any, shared: str | None) -> ControlSettings:
    readers: dict[str, Callable[[Any], Any]] = {
        "database": _text,
        "policy": _text,
        "scenario": _scenario,
        "settlement": _settlement,
        "rails": lambda rows: _table(Rails, rows, "rails", _RAILS),
        "patience": lambda rows: _table(Timeouts, rows, "patience", _PATIENCE),
        "pace": lambda rows: _table(
            Pace, rows, "pace", {"batch": _count, "lease": _duration, "gather": _delay}
        ),
        "upkeep": lambda rows: _table(
            Upkeep, rows, "upkeep", dict.fromkeys(("enrol", "anchor", "idle"), _duration)
        ),
        "probes": lambda rows: _table(
            ProbeSettings, rows, "probes", dict.fromkeys(("every", "timeout"), _duration)
        ),
        "alerts": lambda rows: _table(
            AlertSettings, rows, "alerts", {"webhook": _webhook, "overdue": _duration}
        ),
        "responses": lambda rows: _table(Responses, rows, "responses", _RESPONSES),
        "promotion": lambda rows: _table(Conditions, rows, "promotion", _PROMOTION),
        "metrics": lambda rows: _table(MetricsSettings, rows, "metrics", {"listen": _listen}),
        "retraining": lambda rows: _table(
            RetrainingSettings,
            rows,
            "retraining",
            dict.fromkeys(("every", "at_most", "again"), _duration),
        ),
        "web": lambda rows: _table(WebSettings, rows, "web", _WEB),
    }
    settings = _table(ControlSettings, table, "control", readers)
    if shared is None or "://" in settings.database:
        return settings
    if "database" in table:
        raise InputError(
            "database in control: hosts that share a home must share the schedule and the evidence"
        )
    return replace(settings, database=shared)


def _table(
    kind: Callable[..., T], rows: Any, name: str, readers: Mapping[str, Callable[[Any], Any]]
) -> T:
    if not isinstance(rows, dict):
        raise InputError(f"{name} is not a table")
    found = {}
    for key, value in rows.items():
        if key not in readers:
            raise InputError(f"unknown key {key!r} in {name}: there is {', '.join(readers)}")
        try:
            found[key] = readers[key](value)
        except InputError as error:
            raise InputError(f"{key} in {name}: {error}") from error
    return kind(**found)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"must be a text, not {value!r}")
    return value


def _webhook(value: Any) -> str:
    parts = urlsplit(_text(value))
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InputError("must be an address of HTTP")  # which may be secret, so it is not told
    return parts.geturl()


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"must be a whole number above 0, not {value!r}")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
        raise InputError(f"must be a number, not {value!r}")
    return float(value)


def _duration(value: Any) -> int:
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None or not int(found[1]):
        raise InputError(f'must be a time such as "90 seconds" or "1 day", not {value!r}')
    return int(found[1]) * _UNITS[found[2]]


def _scenario(value: Any) -> Scenario:
    if value not in SCENARIOS:
        raise InputError(f"must be one of {', '.join(SCENARIOS)}, not {value!r}")
    return SCENARIOS[value]


def _settlement(value: Any) -> SettlementMode:
    if value not in list(SettlementMode):
        raise InputError(f"must be one of {', '.join(SettlementMode)}, not {value!r}")
    return SettlementMode(value)


def _windows(value: Any) -> tuple[Window, ...]:
    if not isinstance(value, list):
        raise InputError('must be a list such as ["22:00-06:00"]')
    return tuple(Window.parse(_text(each)) for each in value)


def _action(value: Any) -> Action:
    if not isinstance(value, list) or len(value) != 2:
        raise InputError("must be an interval and a ratio, as in [1, 0.10]")
    return Action(_count(value[0]), _number(value[1]))


def _steps(value: Any) -> tuple[Step, ...]:
    if not isinstance(value, list) or any(each not in list(Step) for each in value):
        raise InputError(f"must be a list of steps out of {', '.join(Step)}")
    return tuple(map(Step, value))


def _delay(value: Any) -> int:
    return 0 if value == "at once" else _duration(value)


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"must be true or false, not {value!r}")
    return value


def _hosts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(_HOST.fullmatch(_text(each)) for each in value):
        raise InputError('must be a list of names such as ["audits.example.org"]')
    return tuple(each.lower() for each in value)


def _origin(value: Any) -> str:
    parts = urlsplit(_text(value).lower())
    whole = f"{parts.scheme}://{parts.netloc}"
    if parts.scheme not in {"http", "https"} or not parts.hostname or whole != value.lower():
        raise InputError(f'must be an origin such as "https://audits.example.org", not {value!r}')
    return whole


def _listen(value: Any, lowest: int = 1) -> tuple[str, int]:
    host, _, port = _text(value).rpartition(":")
    if not host or not port.isdecimal() or not lowest <= int(port) < 1 << 16:
        raise InputError(f'must be a host and a port such as "127.0.0.1:9470", not {value!r}')
    return host.removeprefix("[").removesuffix("]"), int(port)


_WEB: dict[str, Callable[[Any], Any]] = {
    "listen": lambda value: None if value == "off" else _listen(value, lowest=0),
    "hosts": _hosts,
    "trust_loopback": _switch,
    "origin": _origin,
}
_RAILS: dict[str, Callable[[Any], Any]] = {
    "unit": _duration,
    "shortest": _count,
    "longest": _count,
    "sample_cap": _count,
    "fail_safe": _action,
    "jitter": _number,
    "surprise": _number,
    "quiet": _windows,
    "gas_price_cap": _count,
    "gas_retry": _duration,
    "stale_after": _number,
}
_PATIENCE: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("deadline", "first_pause", "longest_pause"), _duration),
    "at_once": _count,
}
_RESPONSES: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("failed", "timed_out"), _steps),
    "delay": _delay,
    "ratio": _number,
    **dict.fromkeys(("pause", "patience", "slice", "lease"), _duration),
}
_PROMOTION: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("ceiling", "stress"), _number),
    **dict.fromkeys(("episodes", "decisions"), _count),
    "shadow": _duration,
    **dict.fromkeys(("gas_margin", "rails_margin", "outside_margin"), _number),
}
assert set(_PROMOTION) == {each.name for each in fields(Conditions)}  # noqa: S101 - as below
assert set(_RESPONSES) == {each.name for each in fields(Responses)}  # noqa: S101 - as below
assert set(_RAILS) == {each.name for each in fields(Rails)}  # noqa: S101 - none is forgotten
