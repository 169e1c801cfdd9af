"""Shows the settings in effect as `holdfast.toml` would write them, with the source of each.

Secrets are left out.
"""

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from holdfast.control.settings.models import ControlSettings, read_control
from holdfast.owner.ledgers import public_sender
from holdfast.owner.settings import HomeSettings, Settings, read_settings
from holdfast.settings_file import SettingsFile, as_written

DIGEST_CHARACTERS = 16


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


def effective_settings(home: Path) -> list[Setting]:
    """Return every setting of a home; raise if they can't be used."""
    settings, control, file = read_settings(home), read_control(home), SettingsFile.read(home)
    named = {name for name, _ in _flatten(file.document)}
    if "control.database" in named:
        named.add("home.database")  # which it is another name for
    return [
        Setting(name, value, Source.FILE if name in named else Source.DEFAULT)
        for name, value in _written(settings, control)
    ]


def recorded_settings(
    home: Path, settings: Settings, control: ControlSettings, key: bytes
) -> dict[str, str | None]:
    """Return the settings as the evidence records them, by name.

    A secret is replaced by its digest under `key`: a change is visible, and nobody without the key
    can try guesses.
    """
    secrets = {
        "home.database": settings.database,
        "ledger.url": settings.evm.url if settings.evm else None,
        "control.alerts.webhook": control.alerts.webhook,
    }
    values: dict[str, str | None] = {}
    for name, value in _written(settings, control):
        text, secret = _text(value), secrets.get(name)
        if text is not None and secret is not None and secret != text:
            digest = hmac.new(key, secret.encode(), hashlib.sha256).hexdigest()
            text = f"{text}, digest {digest[:DIGEST_CHARACTERS]}"
        if text is not None and name in {"ledger.keystore", "ledger.passphrase_file"}:
            text = text.removeprefix(f"{home}/")  # hosts that share a home have it elsewhere
        values[name] = text
    sender = public_sender(home, settings)
    values["ledger.account"] = None if sender is None else f"0x{sender.hex()}"
    return values


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _written(settings: Settings, control: ControlSettings) -> Iterator[tuple[str, Any]]:
    """Yield every setting by its full name, as the file would write it."""
    evm = settings.evm
    ledger = {"kind": "local"} if evm is None else {"kind": "evm", **as_written(evm)}
    home = as_written(HomeSettings(settings.database))
    plane = as_written(control)
    del plane["database"]  # which is the home's
    return _flatten({"home": home, "ledger": ledger, "control": plane})


def _flatten(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tables.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
