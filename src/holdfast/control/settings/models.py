"""The table `[control]` of the home's `holdfast.toml`: everything an operator can set, checked.

[control]
policy = "drqn-cmdp-plus"
scenario = "field"
allow_plugins = false              # true: policies of other packages and files may run in shadow
settlement = "batch"               # one transaction for all audits due together, or "single"
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
overdue = "1 hour"                 # how late an audit may be before there is an alert
offline = "6 hours"                # how long a node may be away before there is one
[control.responses]
failed = ["follow-up", "localise", "repair", "follow-up", "quarantine", "alert"]
repairs = 3                        # of one holding within `repairs_within`: then it is quarantined
delay = "at once"
tool_repair = "show"               # or "run": let tools repair what they checked
[control.checks]
deadline = "12 hours"              # how long one check of storage without a node may take
[control.prices]
egress_gb = 0.01                   # money for 10^9 bytes that checks read; none unless it is set
request = 0.0000004                # money for one request of theirs
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
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PlainSerializer, Strict

from holdfast.control.incidents.types import Step
from holdfast.control.scheduling.guardrails import Rails
from holdfast.durations import DAY, HOUR, MINUTE, SECOND
from holdfast.errors import InputError
from holdfast.evidence.leaf import Outcome
from holdfast.model.scenario import SCENARIOS, Scenario
from holdfast.owner.home import address_in
from holdfast.owner.settings import DATABASE, read_database
from holdfast.settings_file import (
    Address,
    Count,
    Delay,
    Duration,
    Number,
    SettingsFile,
    Switch,
    Table,
    Text,
    parse_text,
    parsed_by,
    split_address,
)

HIDDEN = "(set, not shown)"
ALL_STEPS = (
    *(Step.FOLLOW_UP, Step.LOCALISE, Step.REPAIR),
    *(Step.FOLLOW_UP, Step.QUARANTINE, Step.ALERT),
)
_HOST = re.compile(r"[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*")

Endpoint = tuple[str, int]


def _parse_webhook(value: Any) -> str:
    parts = split_address(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InputError("must be an address of HTTP")  # which may be secret, so it is not shown
    return parts.geturl()


def _parse_scenario(value: Any) -> Scenario:
    if value not in list(SCENARIOS):
        raise InputError(f"must be one of {', '.join(SCENARIOS)}, not {value!r}")
    return SCENARIOS[value]


def _parse_host(value: Any) -> str:
    if not isinstance(value, str) or not _HOST.fullmatch(value):
        raise InputError('must be a list of names such as ["audits.example.org"]')
    return value.lower()


def _parse_origin(value: Any) -> str:
    parts = split_address(parse_text(value).lower())
    origin = f"{parts.scheme}://{parts.netloc}"
    if parts.scheme not in {"http", "https"} or not parts.hostname or origin != value.lower():
        raise InputError('must be an origin such as "https://audits.example.org"')
    return origin


def _parse_endpoint(value: Any, lowest: int = 1) -> Endpoint:
    host, _, port = parse_text(value).rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not _is_host(host) or not port.isdecimal() or not lowest <= int(port) < 1 << 16:
        raise InputError(f'must be a host and a port such as "127.0.0.1:9470", not {value!r}')
    return host, int(port)


def _is_host(host: str) -> bool:
    """Return whether this is a name, or an address of IPv4 or IPv6."""
    try:
        ip_address(host)
    except ValueError:
        return _HOST.fullmatch(host) is not None
    return True


def _parse_web_endpoint(value: Any) -> Endpoint | None:
    return None if value == "off" else _parse_endpoint(value, lowest=0)


def _format_endpoint(endpoint: Endpoint | None) -> str:
    return "off" if endpoint is None else f"{endpoint[0]}:{endpoint[1]}"


Webhook = Annotated[str, parsed_by(_parse_webhook), PlainSerializer(lambda _webhook: HIDDEN)]
NamedScenario = Annotated[
    Scenario, parsed_by(_parse_scenario), PlainSerializer(lambda scenario: scenario.name)
]
HostName = Annotated[str, parsed_by(_parse_host)]
Origin = Annotated[str, parsed_by(_parse_origin)]
Listen = Annotated[Endpoint, parsed_by(_parse_endpoint), PlainSerializer(_format_endpoint)]
ListenOrOff = Annotated[
    Endpoint | None, parsed_by(_parse_web_endpoint), PlainSerializer(_format_endpoint)
]
Ratio = Annotated[float, Strict(), Field(gt=0, le=1)]
Ceiling = Annotated[float, Strict(), Field(gt=0, lt=1)]
Stress = Annotated[float, Strict(), Field(ge=1, lt=1e9)]
ByteCount = Annotated[int, Strict(), Field(ge=1, lt=2**63)]


class SettlementMode(StrEnum):
    """How audits that are due together are settled on the ledger."""

    SINGLE = "single"
    BATCH = "batch"


class ToolRepair(StrEnum):
    """What becomes of the commands by which a tool can repair what it checked."""

    SHOW = "show"
    RUN = "run"  # unless they give up data


@dataclass(frozen=True)
class Timeouts(Table):
    """How long a node may take, and how often it is asked again."""

    deadline: Duration = HOUR
    first_pause: Duration = 5 * SECOND
    longest_pause: Duration = 10 * MINUTE
    at_once: Count = 2  # requests to one node side by side, each with many challenges

    @property
    def last_try(self) -> int:
        """Return how long before the deadline a node is asked for the last time."""
        return min(MINUTE, self.deadline // 10)


@dataclass(frozen=True)
class Pace(Table):
    """How much a worker claims at once, and for how long its leases last."""

    batch: Count = 256
    lease: Duration = 120 * SECOND
    gather: Delay = 0  # how long a due audit may wait to be settled with more


@dataclass(frozen=True)
class CheckSettings(Table):
    """How storage without a node is checked."""

    deadline: Duration = 12 * HOUR  # how long one check may take
    listing: Duration = 10 * MINUTE  # how long a storage may take to say what it has
    at_once: Count = 2  # checks side by side
    sample_cap: Count = 100_000  # units in one check
    daily_bytes: ByteCount | None = None  # that checks of one holding may read, on average


@dataclass(frozen=True)
class PriceSettings(Table):
    """What the provider of checked storage asks for, in any currency."""

    egress_gb: Number | None = None  # for 10^9 bytes that are read
    request: Number | None = None

    def money(self, read_bytes: float, requests: float) -> float | None:
        """Return what reading costs; None if nobody has set a price."""
        if self.egress_gb is None and self.request is None:
            return None
        return read_bytes / 1e9 * (self.egress_gb or 0.0) + requests * (self.request or 0.0)


@dataclass(frozen=True)
class Upkeep(Table):
    """How often the work beside audits is done."""

    enrol: Duration = 30 * SECOND  # looking for new holdings and old confidences
    anchor: Duration = 6 * HOUR  # putting the evidence's root on the ledger
    idle: Duration = SECOND  # the longest time between two looks for due holdings


@dataclass(frozen=True)
class ProbeSettings(Table):
    """How often every node is probed, on average, and how long it has to take a request."""

    every: Duration = HOUR
    timeout: Duration = 5 * SECOND


@dataclass(frozen=True)
class AlertSettings(Table):
    webhook: Webhook | None = field(default=None, repr=False)
    overdue: Duration = HOUR  # how late an audit may be
    offline: Duration = 6 * HOUR  # how long a node may be away


@dataclass(frozen=True)
class Responses(Table):
    """Which steps follow which outcome, in their order, and how they are taken.

    A holding is quarantined after as many failures in a row as there are follow-ups before that
    step and one, or as soon as it is known that blocks are lost, or after `repairs` repairs within
    `repairs_within`, each of which had put all blocks back.
    """

    failed: tuple[Step, ...] = ALL_STEPS
    admitted: tuple[Step, ...] = ALL_STEPS
    timed_out: tuple[Step, ...] = ALL_STEPS
    repair_direct: Switch = False  # whether objects of a direct holding are written again
    repairs: Count = 3  # of one holding, after which it is quarantined
    repairs_within: Duration = 30 * DAY  # if they come within this time
    delay: Delay = 0  # until an audit that follows up
    ratio: Ratio = 0.20  # of blocks that it samples
    pause: Duration = 10 * MINUTE  # until a step that could not be taken is tried again
    patience: Duration = DAY  # for which it is tried
    slice: Duration = 2 * SECOND  # of work, before anything else gets its turn
    lease: Duration = 10 * MINUTE  # for which a worker may be silent about a step
    # Whether tools repair what they checked: by default, their commands are only shown.
    tool_repair: ToolRepair = ToolRepair.SHOW

    def __post_init__(self) -> None:
        for plan in self.plans.values():
            before: set[Step] = set()
            for step in plan:
                if step is Step.REPAIR and Step.LOCALISE not in before:
                    raise ValueError("repair comes after localise, which says what to repair")
                if step is Step.FOLLOW_UP and Step.QUARANTINE in before:
                    raise ValueError("no follow-up comes after quarantine, which ends all audits")
                before.add(step)

    @property
    def plans(self) -> Mapping[Outcome, tuple[Step, ...]]:
        return {
            Outcome.FAILED: self.failed,
            Outcome.ADMITTED: self.admitted,
            Outcome.TIMED_OUT: self.timed_out,
        }


@dataclass(frozen=True)
class Conditions(Table):
    """What a promotion needs."""

    ceiling: Ceiling | None = None  # on the miss rate; by default, the champion's
    stress: Stress = 2.5  # times the odds of a miss that it allows, in worse worlds
    episodes: Count = 4000  # in each world
    decisions: Count = 200  # in shadow, at least
    shadow: Duration = 14 * DAY  # and for at least this long
    gas_margin: Number = 0.05  # by which the gas a month may be higher, as a share
    rails_margin: Number = 0.02  # by which more decisions may be replaced or clipped
    outside_margin: Number = 0.01  # by which more observations may lie outside of the training


@dataclass(frozen=True)
class MetricsSettings(Table):
    """Where Prometheus finds the figures: a host and a port, nowhere by default."""

    listen: Listen | None = None


@dataclass(frozen=True)
class RetrainingSettings(Table):
    every: Duration | None = None  # never, unless it is set
    at_most: Duration = DAY  # how long one may take
    again: Duration = DAY  # how long after a failure it is tried again


@dataclass(frozen=True)
class WebSettings(Table):
    """Where the API and the dashboard are served, and whom they trust."""

    listen: ListenOrOff = ("127.0.0.1", 9471)  # port 0 is any
    hosts: tuple[HostName, ...] = ()  # names that it is called by, beside addresses and localhost
    # Whether callers on this machine are admins. Unset: yes, unless `origin` or `hosts` is set.
    trust_loopback: Switch | None = None
    origin: Origin | None = None  # as browsers see it behind a proxy that speaks TLS

    @property
    def behind_proxy(self) -> bool:
        """Whether a proxy may stand before it, behind which every caller is on loopback."""
        return self.origin is not None or bool(self.hosts)


@dataclass(frozen=True)
class ControlSettings(Table):
    database: Address = field(default=DATABASE, repr=False)  # the home's: see `read_database`
    policy: Text = "drqn-cmdp-plus"
    scenario: NamedScenario = SCENARIOS["field"]
    allow_plugins: Switch = False  # run policies of other packages and files in shadow
    settlement: SettlementMode = SettlementMode.BATCH
    rails: Rails = field(default_factory=Rails)
    patience: Timeouts = field(default_factory=Timeouts)
    checks: CheckSettings = field(default_factory=CheckSettings)
    prices: PriceSettings = field(default_factory=PriceSettings)
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
        return address_in(home, self.database)


def read_control(home: Path) -> ControlSettings:
    """Return what `holdfast.toml` says of the control plane, with defaults for the rest."""
    file = SettingsFile.read(home)
    return replace(file.table("control", ControlSettings), database=read_database(file))
