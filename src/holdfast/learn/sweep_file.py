"""Sweeps: many trainings described by one TOML file.

Every method is trained in every scenario, for every ceiling, with every seed. The order of the
trainings is the same on every machine, so that shards of a sweep can run on several.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from holdfast import atomic
from holdfast.errors import InputError
from holdfast.learn import methods
from holdfast.learn.drqn_cmdp_plus import PlusSettings
from holdfast.learn.methods import AnySettings
from holdfast.learn.pool import Job
from holdfast.learn.settings_changes import change_settings, flat_changes
from holdfast.learn.training import Run
from holdfast.model.scenario import Scenario
from holdfast.sim.scenario_file import load_scenario

MAX_BYTES = 1 << 20
UNITS = 600

T = TypeVar("T")


@dataclass(frozen=True)
class Sweep:
    methods: tuple[str, ...]
    scenarios: tuple[str, ...] = ("paper",)
    ceilings: tuple[float | None, ...] = (None,)  # on the miss rate; None for the method's own
    seeds: tuple[int, ...] = (0,)
    episodes: int = UNITS
    rounds: int = UNITS  # of methods that count rounds
    settings: Mapping[str, Mapping[str, Any]] | None = None  # changes, by method

    def jobs(self, out: Path, *, keep_state: bool = False) -> list[Job]:
        """Return all trainings; each has a folder of its own below `out`."""
        worlds = {name: load_scenario(name) for name in self.scenarios}
        jobs = []
        for method, (name, world), rho in product(self.methods, worlds.items(), self.ceilings):
            settings = self._settings(method, world, rho)
            units = self.rounds if isinstance(settings, PlusSettings) else self.episodes
            place = out / _name(method) / _name(world.name if name.endswith(".toml") else name)
            if rho is not None:
                place /= f"rho-{rho:g}"
            jobs += [
                Job(Run(method, world, seed, units, settings), place / f"seed-{seed}", keep_state)
                for seed in self.seeds
            ]
        if len({job.folder for job in jobs}) < len(jobs):
            raise InputError("two trainings of the sweep would share a folder: name nothing twice")
        return jobs

    def _settings(self, method: str, world: Scenario, rho: float | None) -> AnySettings:
        settings = (
            methods.settings_of(method, world) if rho is None else methods.with_ceiling(method, rho)
        )
        return change_settings(settings, (self.settings or {}).get(method, {}), method)


def read_sweep(path: Path) -> Sweep:
    """Return the sweep in a file, or name what is wrong with it."""
    try:
        document = tomllib.loads(atomic.read(path, at_most=MAX_BYTES).decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} is not a TOML file: {error}") from error
    known = [part.name for part in fields(Sweep)]
    for key in document:
        if key not in known:
            raise InputError(f"{path} has an unknown key {key!r}: a sweep has {', '.join(known)}")
    try:
        return _sweep(document)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _sweep(document: Mapping[str, Any]) -> Sweep:
    if not document.get("methods"):
        raise InputError("a sweep names its methods, as in methods = ['drqn-cmdp']")
    found: dict[str, Any] = {
        key: _list(key, document[key], str) for key in ("methods", "scenarios") if key in document
    }
    if "ceilings" in document:
        found["ceilings"] = _list("ceilings", document["ceilings"], float)
    for key in ("episodes", "rounds"):
        if key in document:
            (found[key],) = _list(key, [document[key]], int)
    if "seeds" in document:
        given = document["seeds"]
        found["seeds"] = (
            _list("seeds", given, int) if isinstance(given, list) else tuple(range(_count(given)))
        )
    if "settings" in document:
        found["settings"] = _settings_by_method(document["settings"], found["methods"])
    return Sweep(**found)


def _list(key: str, values: Any, kind: type[T]) -> tuple[T, ...]:
    names = {str: "texts", float: "numbers", int: "whole numbers"}
    accepted = (int, float) if kind is float else kind
    good = isinstance(values, list) and all(
        isinstance(value, accepted) and not isinstance(value, bool) for value in values
    )
    if not good or not values:
        raise InputError(f"{key} must be {names[kind]}, not {values!r}")
    return tuple(kind(value) for value in values)  # type: ignore[call-arg]


def _count(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise InputError(f"seeds must be a number of seeds or a list of them, not {value!r}")
    return value


def _settings_by_method(table: Any, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    for method in table if isinstance(table, dict) else [table]:
        if method not in names or not isinstance(table[method], dict):
            raise InputError(
                f"settings has the tables of methods, as in [settings.{names[0]}]: {method!r} is"
                " none of the sweep"
            )
    return {method: flat_changes(changes) for method, changes in table.items()}


def _name(text: str) -> str:
    """Return a folder name for a method or a scenario, which may be files or have options."""
    return re.sub(r"[^\w.=-]+", "-", text).lstrip(".-")


def select_shard(jobs: Sequence[T], shard: str) -> list[T]:
    """Return the jobs of a shard such as `2/5`: the second of five parts."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", shard)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise InputError(f"write a shard as in 2/5, the second of five parts, not {shard!r}")
    number, count = int(match[1]), int(match[2])
    return list(jobs[number - 1 :: count])
