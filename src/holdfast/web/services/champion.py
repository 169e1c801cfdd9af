"""The policy that decides now, by a name that simulations find it by."""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Engine

from holdfast.control.policies.versions import Registry
from holdfast.control.settings.models import ControlSettings
from holdfast.errors import HoldfastError


class Decider(NamedTuple):
    label: str  # as it was registered
    name: str


class ChampionLookup:
    """Looks each version up once: a version never changes."""

    def __init__(self, reader: Engine, folder: Path, settings: ControlSettings) -> None:
        self._registry, self._folder, self._settings = Registry(reader), folder, settings
        self._known: dict[str, Decider] = {}

    def find(self, version: str | None) -> Decider:
        """Return the champion's version as it can be simulated, or else the settings' policy."""
        if version in self._known:
            return self._known[version]
        settings = self._settings
        if version is not None:
            with suppress(HoldfastError):  # the version can't be loaded; other pages say so
                name = self._registry.named(version, self._folder, settings.scenario)
                decider = Decider(self._registry.serving(version).name, name)
                return self._known.setdefault(version, decider)
        return Decider(settings.policy, settings.policy)
