"""The registry of policy versions, with everything that their decisions depend on.

Nothing in it is trusted. Every load checks the weights against the manifest, and the manifest, the
dial or the rule against the version itself.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, insert, select
from sqlalchemy.exc import IntegrityError

from holdfast import atomic
from holdfast.control.policies.aliases import ALIASES, Aliases
from holdfast.errors import HoldfastError, InputError, MalformedError, NotFoundError
from holdfast.model.scenario import Scenario
from holdfast.policy import checkpoint, json_schema
from holdfast.policy.plugins import absolute_name
from holdfast.policy.registry import locate
from holdfast.policy.serving import Serving, load_serving, serve_checkpoint
from holdfast.storage.database import transaction
from holdfast.storage.schema import versions

MIN_PREFIX = 4  # characters that may stand for a version
POLICIES = "policies"  # in a home: checkpoints that only the registry names


@dataclass(frozen=True)
class Registered:
    version: str
    name: str
    registered: int
    learned: bool


def list_versions(connection: Connection) -> list[Registered]:
    """Return the registered versions, the newest first."""
    columns = (versions.c.id, versions.c.name, versions.c.registered)
    query = select(*columns, versions.c.manifest.is_not(None))
    newest = query.order_by(versions.c.registered.desc(), versions.c.id)
    return [Registered(*row) for row in connection.execute(newest)]


class Registry:
    def __init__(self, engine: Engine, *, with_plugins: bool = False) -> None:
        """Open the registry; plug-ins are refused, and not run, unless `with_plugins`."""
        self._engine, self._with_plugins = engine, with_plugins

    def register(
        self, name: str, scenario: Scenario, now: int, known_as: str | None = None
    ) -> Serving:
        """Enter the policy of that name, unless it is there; return it."""
        name = absolute_name(name)
        served, row = _entry(name, scenario, with_plugins=self._with_plugins)
        row |= {"id": served.version, "name": known_as or name, "registered": now}
        try:
            with transaction(self._engine) as connection:
                connection.execute(insert(versions), [row])
        except IntegrityError:  # the registered one decides the same, if it loads
            return self.serving(served.version)
        return served

    def serving(self, version: str) -> Serving:
        """Load a version; refuse it if it is not what was registered."""
        row = self._row(version)
        try:
            policy = _load(row, with_plugins=self._with_plugins)
        except InputError as error:
            raise MalformedError(f"version {version[:12]} ({row.name}) is refused: {error}") from (
                error
            )
        if policy.version != version:
            raise MalformedError(
                f"version {version[:12]} ({row.name}) is refused: what the registry holds has the "
                f"hash {policy.version[:12]}"
            )
        return policy

    def named(self, version: str, home: Path, scenario: Scenario) -> str:
        """Return a name by which simulations find this version.

        It is the version's own, or that of a folder in the home, where its checkpoint is written.
        """
        own = self.serving(version).name
        if _means(own, scenario, version):
            return own
        row = self._row(version)
        if row.manifest is None:
            return own
        folder = home.absolute() / POLICIES / version[:12]
        name = f"{folder}:{row.options}" if row.options else str(folder)
        if not _means(name, scenario, version):
            atomic.make_directory(folder, mode=atomic.PRIVATE_FOLDER)
            checkpoint.write(folder, bytes(row.manifest), bytes(row.weights))
        return name

    def manifest(self, version: str) -> dict[str, Any] | None:
        """Return the checked manifest of a learned version."""
        self.serving(version)
        query = select(versions.c.manifest).where(versions.c.id == version)
        with transaction(self._engine) as connection:
            content = connection.execute(query).scalar_one()
        return None if content is None else json_schema.parse(content)

    def listing(self) -> list[Registered]:
        with transaction(self._engine) as connection:
            return list_versions(connection)

    def _row(self, version: str) -> Any:
        with transaction(self._engine) as connection:
            row = connection.execute(select(versions).where(versions.c.id == version)).first()
        if row is None:
            raise NotFoundError(f"there is no version {version[:12]} in the registry")
        return row

    def find(self, text: str, aliases: Aliases) -> str:
        """Return the version that an alias, or the beginning of its hash, means."""
        if text in ALIASES:
            version: str | None = getattr(aliases, text)
            if version is None:
                raise NotFoundError(f"there is no {text}: see `holdfast policy list`")
            return version
        return _match(text, [registered.version for registered in self.listing()])


def _match(text: str, known: Sequence[str]) -> str:
    matches = [version for version in known if version.startswith(text.lower())]
    if len(text) < MIN_PREFIX or not matches:
        raise NotFoundError(f"there is no version {text!r}: see `holdfast policy list`")
    if len(matches) > 1:
        raise NotFoundError(f"{len(matches)} versions begin with {text!r}: give more of it")
    return matches[0]


def _means(name: str, scenario: Scenario, version: str) -> bool:
    with suppress(HoldfastError):
        return load_serving(name, scenario).version == version
    return False


def _entry(name: str, scenario: Scenario, *, with_plugins: bool) -> tuple[Serving, dict[str, Any]]:
    """Return the policy, and the row that stores it."""
    row: dict[str, Any] = {"scenario": json_schema.dump(scenario)}
    place = locate(name, scenario)
    if place is None:
        return load_serving(name, scenario, with_plugins=with_plugins), row | {
            "options": "",
            "manifest": None,
            "weights": None,
        }
    manifest, weights = checkpoint.read(place.folder)
    parsed = checkpoint.parse(manifest, weights, f"{place.folder}/")
    row |= {"options": place.options, "manifest": manifest, "weights": weights}
    return serve_checkpoint(name, place.options, parsed), row


def _load(row: Any, *, with_plugins: bool) -> Serving:
    if row.manifest is not None and row.weights is not None:
        parsed = checkpoint.parse(bytes(row.manifest), bytes(row.weights))
        return serve_checkpoint(row.name, row.options, parsed)
    scenario = json_schema.read(Scenario, json_schema.parse(bytes(row.scenario)))
    if row.manifest is not None or locate(row.name, scenario) is not None:
        raise MalformedError("its weights or its manifest are gone")
    return load_serving(row.name, scenario, with_plugins=with_plugins)
