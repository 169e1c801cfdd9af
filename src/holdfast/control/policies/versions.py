"""The registry: policies by their version, with all that their decisions depend on.

Nothing in it is trusted: each version is checked again whenever it is loaded, its weights against
the manifest, and the manifest, the dial or the rule against the version itself.
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
from holdfast.policy.registry import place_of
from holdfast.policy.serving import Serving, learned, serving
from holdfast.storage.database import transaction
from holdfast.storage.schema import versions

SHORTEST = 4  # characters by which a version may be named
POLICIES = "policies"  # in a home: checkpoints that no name leads to but the registry's


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
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def register(
        self, name: str, scenario: Scenario, now: int, known_as: str | None = None
    ) -> Serving:
        """Enter the policy of that name, or known as another, unless it is there; return it."""
        served, row = _entered(name, scenario)
        row |= {"id": served.version, "name": known_as or name, "registered": now}
        try:
            with transaction(self._engine) as connection:
                connection.execute(insert(versions), [row])
        except IntegrityError:  # what is there decides alike, if it loads
            return self.serving(served.version)
        return served

    def serving(self, version: str) -> Serving:
        """Return a version that decides, or refuse it if it is not what was registered."""
        row = self._row(version)
        try:
            found = _loaded(row)
        except InputError as error:
            raise MalformedError(f"version {version[:12]} ({row.name}) is refused: {error}") from (
                error
            )
        if found.version != version:
            raise MalformedError(
                f"version {version[:12]} ({row.name}) is refused: what the registry holds has the "
                f"hash {found.version[:12]}"
            )
        return found

    def named(self, version: str, home: Path, scenario: Scenario) -> str:
        """Return a name by which simulations find this version, whoever registered it.

        It is the version's own, or that of a folder in the home, to which its checkpoint goes.
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
        """Return the manifest of a learned version, which has been checked."""
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
        return _only(text, [each.version for each in self.listing()])


def _only(text: str, known: Sequence[str]) -> str:
    found = [each for each in known if each.startswith(text.lower())]
    if len(text) < SHORTEST or not found:
        raise NotFoundError(f"there is no version {text!r}: see `holdfast policy list`")
    if len(found) > 1:
        raise NotFoundError(f"{len(found)} versions begin with {text!r}: give more of it")
    return found[0]


def _means(name: str, scenario: Scenario, version: str) -> bool:
    with suppress(HoldfastError):
        return serving(name, scenario).version == version
    return False


def _entered(name: str, scenario: Scenario) -> tuple[Serving, dict[str, Any]]:
    """Return the policy, and what is kept of it."""
    kept: dict[str, Any] = {"scenario": json_schema.dump(scenario)}
    place = place_of(name, scenario)
    if place is None:
        return serving(name, scenario), kept | {"options": "", "manifest": None, "weights": None}
    manifest, weights = checkpoint.read(place.folder)
    found = checkpoint.parse(manifest, weights, f"{place.folder}/")
    kept |= {"options": place.options, "manifest": manifest, "weights": weights}
    return learned(name, place.options, found), kept


def _loaded(row: Any) -> Serving:
    if row.manifest is not None and row.weights is not None:
        found = checkpoint.parse(bytes(row.manifest), bytes(row.weights))
        return learned(row.name, row.options, found)
    scenario = json_schema.read(Scenario, json_schema.parse(bytes(row.scenario)))
    if row.manifest is not None or place_of(row.name, scenario) is not None:
        raise MalformedError("its weights or its manifest are gone")
    return serving(row.name, scenario)
