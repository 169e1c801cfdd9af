"""Policies by name, as the command line and configurations write them.

`fixed-high`, `constant:14,0.20`, `belief`, `belief:rho=0.045,latency=7.5`, `clairvoyant:rho=0.05`.
Learned: `drqn-cmdp-plus`, `drqn-cmdp-plus@paper` (trained for that scenario, whichever it is run
in), `drqn-cmdp-plus:rho=0.04,latency=8`, `drqn-cmdp-plus:dial=3` (the third of its dials),
`drqn-cmdp-plus:dial=3,rho=0.04` (the same, with the ceiling that it is held to), `runs/a` and
`runs/a:rho=0.03` (the folder of a checkpoint).
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.scenario import Scenario
from holdfast.policy import rules
from holdfast.policy.bayesian import Bayesian
from holdfast.policy.belief import belief_policy
from holdfast.policy.checkpoint import Checkpoint, load
from holdfast.policy.clairvoyant import clairvoyant
from holdfast.policy.interface import AnyPolicy
from holdfast.policy.lagrangian import Ceilings
from holdfast.policy.learned import Learned
from holdfast.policy.shipped import shipped_folder

DEFAULT_RHO = 0.05

_PLAIN: dict[str, Callable[[Scenario], AnyPolicy]] = {
    "fixed-high": lambda _: rules.fixed_high(),
    "fixed-low": lambda _: rules.fixed_low(),
    "heuristic": lambda _: rules.heuristic(),
    "bayesian": Bayesian,
    "oracle": lambda _: rules.Oracle(),
    "two-speed": lambda _: rules.two_speed(),
    "daily-5": rules.daily_5,
    "sample-460": rules.sample_460,
}
PLANNED: dict[str, Callable[[Scenario, Ceilings], AnyPolicy]] = {
    "belief": belief_policy,
    "clairvoyant": clairvoyant,
}
LEARNED = (
    *("dqn", "double-dqn", "dueling-dqn", "d3qn", "ppo", "a2c"),
    *("ppo-lagrangian", "drqn-cmdp", "drqn-cmdp-plus"),
)
NAMES = (*_PLAIN, "constant", *PLANNED, *LEARNED)


class Place(NamedTuple):
    """Where a learned policy lies, and what its name says of its dial."""

    folder: Path
    options: str


def policy_named(name: str, scenario: Scenario) -> AnyPolicy:
    """Return the policy for a scenario; `belief` and `clairvoyant` are planned here, in seconds."""
    kind, colon, options = name.partition(":")
    if kind in PLANNED:
        return PLANNED[kind](scenario, _ceilings(name, options))
    if kind == "constant":
        return rules.Constant(_action(name, options))
    if kind in _PLAIN and not colon:
        return _PLAIN[kind](scenario)
    if kind in _PLAIN:
        raise InputError(f"policy {name}: {kind} takes no options")
    place = place_of(name, scenario)
    if place is None:
        raise InputError(f"there is no policy {name!r}: the known ones are {', '.join(NAMES)}")
    return set_dial(name, load(place.folder), place.options)


def set_dial(name: str, checkpoint: Checkpoint, options: str) -> Learned:
    """Return a checkpoint's policy, its dial set as the options say."""
    try:
        return checkpoint.policy(_setting(name, options))
    except InputError as error:
        raise InputError(f"policy {name}: {error}") from error


def ceiling_named(name: str, options: str) -> float | None:
    """Return the miss rate to stay below that a name's options mean; a dial's number means none."""
    given = _given(name, options, "rho", "latency", "dial")
    return None if "dial" in given and "rho" not in given else _ceilings_of(given).miss_rate


def settings_of(name: str, scenario: Scenario) -> list[str]:
    """Return a policy's name with each of its dials, however it is set; itself if it has none.

    The names mean the same in every scenario and every working directory.
    """
    found = place_of(name, scenario)
    if found is None:
        return [name]
    method, _, trained_for = name.partition(":")[0].partition("@")
    shipped = f"{method}@{trained_for or scenario.name}"
    place = shipped if method in LEARNED else str(found.folder.absolute())
    dials = range(1, len(load(found.folder).manifest.dials) + 1)
    return [f"{place}:dial={number}" for number in dials] or [place]


def place_of(name: str, scenario: Scenario) -> Place | None:
    """Return where the policy of that name lies, or nothing if it is not learned."""
    kind, colon, options = name.partition(":")
    method, _, trained_for = kind.partition("@")
    if method in LEARNED:
        return Place(shipped_folder(method, trained_for or scenario.name), options)
    # A folder's own name may hold a colon, as a time does.
    whole = not colon or _is_folder(name)
    path, options = (name, "") if whole else name.rpartition(":")[::2]
    known = "/" in path or _is_folder(path)
    return Place(Path(path), options) if known and kind not in NAMES else None


def _is_folder(path: str) -> bool:
    try:
        return path != "" and Path(path).is_dir()
    except OSError:  # it is too long for a file's name, say
        return False


def _action(name: str, options: str) -> int:
    interval, _, ratio = options.partition(",")
    try:
        return GRID.index_of(float(interval), float(ratio))
    except ValueError:
        raise InputError(
            f"policy {name}: write the interval and the ratio, as in constant:14,0.20"
        ) from None


def held_to(name: str, rho: float) -> str:
    """Return the name of a policy whose dial is set by number, with the ceiling it is held to."""
    return f"{name},rho={rho:g}" if ":dial=" in name and 0 < rho < 1 else name


def _setting(name: str, options: str) -> Ceilings | int | None:
    """Read how a dial is set: by its number, for ceilings, or not at all."""
    given = _given(name, options, "rho", "latency", "dial")
    if "dial" in given and not given["dial"].is_integer():
        raise InputError(f"policy {name}: dial must be a whole number, not {given['dial']:g}")
    ceilings = _ceilings_of(given) if given else None
    return int(given["dial"]) if "dial" in given else ceilings


def _ceilings(name: str, options: str) -> Ceilings:
    return _ceilings_of(_given(name, options, "rho", "latency"))


def _ceilings_of(given: Mapping[str, float]) -> Ceilings:
    """Return `rho`, the ceiling on the miss rate, and `latency`, the one on the mean latency."""
    return Ceilings(given.get("rho", DEFAULT_RHO), given.get("latency"))


def _given(name: str, options: str, *keys: str) -> dict[str, float]:
    given: dict[str, float] = {}
    for option in options.split(",") if options else ():
        key, _, value = option.partition("=")
        if key not in keys or key in given:
            known = f"{', '.join(keys[:-1])} and {keys[-1]}"
            raise InputError(f"policy {name}: the options are {known}, not {option!r}")
        try:
            given[key] = float(value)
        except ValueError:
            raise InputError(f"policy {name}: {key} must be a number, not {value!r}") from None
    return given
