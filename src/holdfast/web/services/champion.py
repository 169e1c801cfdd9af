"""The policy that decides at present, by a name that simulations find it by."""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Engine

from holdfast.control.policies.aliases import read_aliases
from holdfast.control.policies.versions import Registry
from holdfast.control.settings.models import ControlSettings
from holdfast.errors import HoldfastError
from holdfast.storage.database import transaction


class Decider(NamedTuple):
    label: str  # as it was registered
    name: str


class Deciding:
    """Looks a champion up once: a version never changes."""

    def __init__(self, reader: Engine, folder: Path, settings: ControlSettings) -> None:
        self._reader, self._folder, self._settings = reader, folder, settings
        self._known: dict[str, Decider] = {}

    def now(self) -> Decider:
        with transaction(self._reader) as connection:
            version = read_aliases(connection).champion
        if version in self._known:
            return self._known[version]
        settings, registry = self._settings, Registry(self._reader)
        if version is not None:
            with suppress(HoldfastError):  # which stands elsewhere: it can't decide
                name = registry.named(version, self._folder, settings.scenario)
                found = Decider(registry.serving(version).name, name)
                return self._known.setdefault(version, found)
        return Decider(settings.policy, settings.policy)
