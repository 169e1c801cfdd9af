"""The settings in effect, as `holdfast.toml` would write them, and where each came from.

Whatever may be a secret is not among them.
"""

import hashlib
import hmac
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from holdfast import atomic
from holdfast.control.scheduling.guardrails import DAY, HOUR, MINUTE, SECOND, Window
from holdfast.control.settings.models import MAX_SETTINGS_BYTES, ControlSettings, read_control
from holdfast.model.scenario import Scenario
from holdfast.owner.ledgers import public_sender
from holdfast.owner.settings import Settings, read_settings

DIGEST_CHARACTERS = 16
HIDDEN = "(set, not shown)"
DURATIONS = {
    *("unit", "gas_retry", "deadline", "first_pause", "longest_pause", "lease", "gather"),
    *("enrol", "anchor", "idle", "overdue", "delay", "pause", "patience", "slice"),
    *("shadow", "every", "at_most", "again", "timeout"),
}
UNITS = {"day": DAY, "hour": HOUR, "minute": MINUTE, "second": SECOND}


class Source(StrEnum):
    FLAG = "flag"
    ENVIRONMENT = "environment"
    FILE = "file"
    DEFAULT = "default"


@dataclass(frozen=True)
class Setting:
    """One setting by its full name; `value` is None where nothing is set."""

    name: str
    value: Any
    source: Source


def effective(home: Path) -> list[Setting]:
    """Return every setting of a home; raise if they can't be used."""
    settings, control, path = read_settings(home), read_control(home), home / "holdfast.toml"
    text = atomic.read(path, at_most=MAX_SETTINGS_BYTES).decode() if path.exists() else ""
    document = tomllib.loads(text)
    return [
        *_home(settings, document),
        *_walk("control", control, document.get("control", {}), settings),
    ]


def recorded(
    home: Path, settings: Settings, control: ControlSettings, key: bytes
) -> dict[str, str | None]:
    """Return the settings as the evidence records them, by name.

    A secret is not among them, but a digest of it under `key`, so that its change is seen and
    nobody without the key can try guesses.
    """
    evm = settings.evm
    whole = {
        "home.database": settings.database,
        "ledger.url": evm.url if evm else None,
        "control.database": control.database,
        "control.alerts.webhook": control.alerts.webhook,
    }
    found: dict[str, str | None] = {}
    for setting in (*_home(settings, {}), *_walk("control", control, {}, settings)):
        text = _text(setting.value)
        secret = whole.get(setting.name)
        if text is not None and secret is not None and secret != text:
            digest = hmac.new(key, secret.encode(), hashlib.sha256).hexdigest()
            text = f"{text}, digest {digest[:DIGEST_CHARACTERS]}"
        if text is not None and setting.name in {"ledger.keystore", "ledger.passphrase_file"}:
            text = text.removeprefix(f"{home}/")  # hosts that share a home have it elsewhere
        found[setting.name] = text
    sender = public_sender(home, settings)
    found["ledger.account"] = None if sender is None else f"0x{sender.hex()}"
    return found


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _home(settings: Settings, document: Mapping[str, Any]) -> Iterator[Setting]:
    source = Source.FILE if "home" in document else Source.DEFAULT
    yield Setting("home.database", _address(settings.database), source)
    evm, table = settings.evm, document.get("ledger", {})
    shown: dict[str, str | None] = {"kind": "local" if evm is None else "evm"}
    if evm is not None:
        shown |= {"url": _address(evm.url), "contract": f"0x{evm.contract.hex()}"}
        shown |= {"keystore": str(evm.keystore), "passphrase_file": str(evm.passphrase_file or "")}
    for name, value in shown.items():
        source = Source.FILE if name in table else Source.DEFAULT
        yield Setting(f"ledger.{name}", value or None, source)


def _walk(name: str, value: Any, table: Mapping[str, Any], settings: Settings) -> Iterator[Setting]:
    for each in fields(value):
        own, full = getattr(value, each.name), f"{name}.{each.name}"
        if is_dataclass(own) and not isinstance(own, Scenario):
            yield from _walk(full, own, table.get(each.name, {}), settings)
            continue
        shared = full == "control.database" and settings.database is not None
        there = each.name in table or shared
        yield Setting(full, _plain(full, own), Source.FILE if there else Source.DEFAULT)


def _plain(name: str, value: Any) -> Any:
    """Return a value as the file would have it."""
    last = name.rpartition(".")[2]
    if last in {"webhook", "database"}:
        return HIDDEN if last == "webhook" and value else _address(value)
    if last == "listen":
        return ("off" if "web" in name else None) if value is None else f"{value[0]}:{value[1]}"
    if isinstance(value, Scenario):
        return value.name
    if last in DURATIONS and value is not None:
        return _duration(value)
    if isinstance(value, tuple):
        return [_window(each) if isinstance(each, Window) else each for each in value]
    return str(value) if isinstance(value, StrEnum) else value


def _duration(milliseconds: int) -> str:
    if not milliseconds:
        return "at once"
    whole = (unit for unit, length in UNITS.items() if milliseconds % length == 0)
    unit = next(whole, "millisecond")  # which no file can set
    count = milliseconds // UNITS.get(unit, 1)
    return f"{count} {unit}{'' if count == 1 else 's'}"


def _window(window: Window) -> str:
    ends = (divmod(each // MINUTE, 60) for each in (window.start, window.stop))
    return "-".join(f"{hours:02}:{minutes:02}" for hours, minutes in ends)


def _address(address: str | None) -> str | None:
    """Return an address without user, password, path and query of HTTP: they may be secret."""
    if address is None or "://" not in address:
        return address
    parts = urlsplit(address)
    path = "" if parts.scheme.startswith("http") else parts.path
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}"
