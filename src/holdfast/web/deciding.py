"""The policy that decides at present, by a name that simulations find it by."""

from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Engine

from holdfast.control.aliases import read_aliases
from holdfast.control.database import transaction
from holdfast.control.registry import Registry
from holdfast.control.settings import ControlSettings
from holdfast.errors import HoldfastError


class Decider(NamedTuple):
    label: str  # as it was registered
    name: str


class Deciding:
    """Looks a champion up once: a version never changes."""

    def __init__(self, reader: Engine, folder: Path, settings: ControlSettings) -> None:
        self._reader, self._folder, self._settings = reader, folder, settings
        self._known: dict[str | None, Decider] = {}

    def now(self) -> Decider:
        with transaction(self._reader) as connection:
            version = read_aliases(connection).champion
        if version not in self._known:
            self._known[version] = self._found(version)
        return self._known[version]

    def _found(self, version: str | None) -> Decider:
        settings, registry = self._settings, Registry(self._reader)
        first = Decider(settings.policy, settings.policy)
        if version is None:
            return first
        try:
            name = registry.named(version, self._folder, settings.scenario)
            return Decider(registry.serving(version).name, name)
        except HoldfastError:  # which stands elsewhere: it can't decide
            return first
