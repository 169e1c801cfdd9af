"""What `holdfast holding` does about holdings that no node stores: a tool checks them."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.cli.control import operator
from holdfast.control import checked_commands
from holdfast.control.checked_commands import NewChecked
from holdfast.control.planning.costs import MONTH
from holdfast.control.queries.coverage import Coverage, list_coverage
from holdfast.control.queries.coverage_words import (
    describe_bound,
    describe_coverage,
    describe_promise,
)
from holdfast.control.scheduling.coverage import CYCLE_SHARE
from holdfast.control.service import milliseconds
from holdfast.control.settings.models import read_control
from holdfast.durations import DAY, format_duration, parse_duration
from holdfast.errors import InputError
from holdfast.owner import Catalogue, catalogue_in
from holdfast.owner.checked import CheckedRecord, find_checked, list_checked
from holdfast.words import amount, money, size


@dataclass(frozen=True)
class Tool:
    """The options of `holding add` that say how storage without a node is checked."""

    names: str | None = None
    manifest: str | None = None
    restic: bool = False
    borg: bool = False
    rclone: bool = False
    against: str | None = None
    command: str | None = None
    auditor: str | None = None
    settings: tuple[str, ...] = ()
    password_file: Path | None = None
    password_env: str | None = None
    verify_within: str | None = None

    @property
    def kind(self) -> str | None:
        """The kind of checker, or None if the holding is on a node."""
        kinds = {
            "names": self.names is not None,
            "manifest": self.manifest is not None,
            "restic": self.restic,
            "borg": self.borg,
            "rclone": self.rclone,
            "command": self.command is not None,
            self.auditor or "": self.auditor is not None,
        }
        chosen = [kind for kind, given in kinds.items() if given]
        if len(chosen) > 1:
            raise InputError(
                "give one of --names, --manifest, --restic, --borg, --rclone, --command and "
                "--auditor"
            )
        if chosen:
            return chosen[0]
        self._refuse_stray()
        return None

    def _refuse_stray(self) -> None:
        """Raise if an option is given that only a tool understands."""
        stray = {
            "--against": self.against,
            "--set": self.settings,
            "--password-file": self.password_file,
            "--password-env": self.password_env,
            "--verify-within": self.verify_within,
        }
        for option, value in stray.items():
            if value:
                raise InputError(
                    f"{option} is for storage without a node: say which tool checks it"
                )

    @property
    def options(self) -> dict[str, str]:
        """What the checker is told; a secret is only named, never contained."""
        options = dict(map(_split_setting, self.settings))
        given = {
            "names": self.names,
            "manifest": None if self.manifest is None else _absolute(self.manifest),
            "against": None if self.against is None else _absolute(self.against),
            "command": None if self.command is None else json.dumps(_split_command(self.command)),
            "password-file": None
            if self.password_file is None
            else str(self.password_file.absolute()),
            "password-env": self.password_env,
        }
        return options | {name: value for name, value in given.items() if value is not None}


def add_checked(
    home: Path, name: str, address: str, tool: Tool
) -> tuple[dict[str, Any], list[str]]:
    """Add a holding that a tool checks; return the command's data, and what it says."""
    if tool.rclone and tool.against is None:
        raise InputError("--rclone compares with a second copy: name it with --against ADDRESS")
    within = tool.verify_within
    new = NewChecked(
        name,
        tool.kind or "",
        _absolute(address),
        tool.options,
        None if within is None else _parse_within(within),
    )
    with catalogue_in(home) as catalogue:
        settings = read_control(home)
        record, extent = checked_commands.add(catalogue, home, new, settings, operator())
    units = amount(extent.units, extent.unit, extent.bytes)
    sentences = [f"holding {name} has {units}, checked by {extent.tool}"]
    if record.verify_within is not None:
        every = CYCLE_SHARE if extent.groups else 1.0
        turns = MONTH / (every * record.verify_within)  # in a month
        costs = settings.prices.money(extent.bytes * turns, extent.units * turns)
        price = "" if costs is None else f", {money(costs)} in money a month"
        sentences.append(
            f"each {extent.unit} is read within {format_duration(record.verify_within)}: about "
            f"{size(extent.bytes * turns / MONTH * DAY)} a day{price}"
        )
    sentences.append(f"`holdfast serve` checks it by itself, `holdfast audit now {name}` at once")
    return record_facts(record) | {"tool": extent.tool}, sentences


def list_facts(catalogue: Catalogue) -> list[dict[str, Any]]:
    """Return all checked holdings with their coverage."""
    now = milliseconds()
    with catalogue.transaction() as connection:
        listed = list_coverage(connection, now)
        coverage = {one.holding: one for one in listed}
        records = list_checked(connection)
    return [
        record_facts(record) | {"coverage": coverage_facts(coverage[record.name], now)}
        for record in records
    ]


def find(catalogue: Catalogue, name: str) -> CheckedRecord | None:
    with catalogue.transaction() as connection:
        return find_checked(connection, name)


def record_facts(record: CheckedRecord) -> dict[str, Any]:
    return {
        "holding": record.name,
        "kind": record.kind,
        "address": record.address,
        "options": dict(record.options),
        "unit": record.unit,
        "units": record.units,
        "bytes": record.bytes,
        "verify_within_seconds": None
        if record.verify_within is None
        else record.verify_within // 1000,
    }


def describe(facts: dict[str, Any]) -> Iterator[str]:
    """Yield what a list says of a checked holding."""
    units = amount(facts["units"], facts["unit"], facts["bytes"])
    yield f"{facts['holding']}: {units}, {facts['kind']} at {facts['address']}"
    for sentence in facts["coverage"]["sentences"]:
        yield f"  {sentence}"


def describe_removal(record: CheckedRecord) -> Iterator[str]:
    yield (
        f"holding {record.name} is checked by {record.kind} at {record.address}: nothing is "
        "deleted there, and nobody checks it any more"
    )


def coverage_facts(coverage: Coverage, now: int) -> dict[str, Any]:
    """Return what is known of a holding's units, in figures and in sentences."""
    bound, promise = coverage.bound, describe_promise(coverage)
    return {
        "never_verified": coverage.never,
        "verified_within_days": {str(days): share for days, share in coverage.verified.items()},
        "oldest_seconds": None if coverage.oldest is None else coverage.oldest / 1000,
        "behind": coverage.behind,
        "read": bound.read,
        "read_within_seconds": bound.within // 1000,
        "damaged": bound.damaged,
        "damaged_at_most": bound.at_most,
        "damaged_share_at_most": bound.share,
        "sentences": [
            describe_bound(coverage, now),
            describe_coverage(coverage),
            *([] if promise is None else [promise]),
        ],
    }


def _parse_within(text: str) -> int:
    try:
        return parse_duration(text)
    except InputError as error:
        raise InputError(f"--verify-within {error}") from error


def _split_setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InputError(f"--set must be a name and a value such as units=100, not {text!r}")
    return name, value


def _split_command(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InputError(f"--command can't be split into arguments: {error}") from error


def _absolute(address: str) -> str:
    """Return the whole path of what is on this machine; other addresses stay as they are."""
    path = Path(address).expanduser()
    return str(path.absolute()) if path.exists() else address
