"""The active policies: the champion and the shadows, loaded once and checked before each decision.

A promotion or a rollback takes effect with the next decision of every worker on every host.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, Engine

from holdfast.control.policies.aliases import (
    Aliases,
    Author,
    last_report,
    policy_of,
    promote,
    read_aliases,
)
from holdfast.control.policies.versions import Registry
from holdfast.errors import HoldfastError, InputError, NotFoundError, StorageError
from holdfast.evidence import leaf
from holdfast.model.scenario import Scenario
from holdfast.policy.serving import Envelope, Serving
from holdfast.storage.database import transaction


@dataclass(frozen=True)
class ActivePolicies:
    champion: Serving
    shadows: tuple[Serving, ...] = ()
    challenger: str | None = None
    trouble: str | None = None  # with a version that should run in shadow

    @property
    def policies(self) -> tuple[Serving, ...]:
        return self.champion, *self.shadows


class PolicyLoader:
    def __init__(self, engine: Engine, *, with_plugins: bool = False) -> None:
        """Load from this database; a plug-in never decides, and is a shadow `with_plugins` only."""
        self._engine, self._registry = engine, Registry(engine)
        self._shadows = Registry(engine, with_plugins=with_plugins)
        self._aliases = Aliases()
        self._loaded: dict[str, Serving] = {}
        self._envelopes: dict[str, Envelope] = {}
        self._names: dict[str, leaf.Policy] = {}

    def now(self) -> ActivePolicies:
        """Return the active policies; a shadow that can't be loaded is left out and reported."""
        with transaction(self._engine) as connection:
            aliases = read_aliases(connection, self._aliases)
            if aliases != self._aliases:
                self._envelopes = measured_envelopes(connection, aliases)
            self._aliases = aliases
        if aliases.champion is None:
            raise InputError(
                "no policy decides yet: `holdfast serve` starts with the one in the settings"
            )
        champion = self._load_champion(aliases.champion)
        shadows, trouble = [], None
        for version in aliases.shadows:
            try:
                shadows.append(self._loaded.get(version) or self._shadows.serving(version))
            except StorageError:
                raise
            except HoldfastError as error:
                trouble = str(error)
        self._loaded = {policy.version: policy for policy in (champion, *shadows)}
        return ActivePolicies(
            self._narrow(champion),
            tuple(map(self._narrow, shadows)),
            aliases.challenger,
            trouble,
        )

    def policy(self, version: str) -> leaf.Policy:
        """Return a version as the evidence names it."""
        if version not in self._names:
            try:
                with transaction(self._engine) as connection:
                    self._names[version] = policy_of(connection, version)
            except NotFoundError as error:
                raise StorageError(f"the registry has lost version {version[:12]}") from error
        return self._names[version]

    def _load_champion(self, version: str) -> Serving:
        loaded = self._loaded.get(version)
        if loaded and not loaded.plugin:
            return loaded
        return self._registry.serving(version)

    def _narrow(self, policy: Serving) -> Serving:
        envelope = self._envelopes.get(policy.version)
        return policy if envelope is None else policy.restrict_envelope(envelope)


def measured_envelopes(connection: Connection, aliases: Aliases) -> dict[str, Envelope]:
    """Return the envelope that simulation measured when each active version was promoted."""
    reports = {version: last_report(connection, version) for version in aliases.in_use}
    return {
        version: report["envelope"]["met"]
        for version, report in reports.items()
        if report.get("envelope")
    }


def ensure_champion(engine: Engine, name: str, scenario: Scenario, now: int) -> Aliases:
    """Make the policy of that name the first champion, where there is none yet."""
    with transaction(engine) as connection:
        aliases = read_aliases(connection)
    if aliases.champion is not None:
        return aliases
    first = Registry(engine).register(name, scenario, now)
    author = Author("holdfast", now, "the first, as the settings name it")
    try:
        return promote(engine, aliases, first.version, author)
    except InputError:  # another worker was quicker
        return ensure_champion(engine, name, scenario, now)
