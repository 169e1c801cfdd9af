"""Policies by name, as the command line and settings write them.

`fixed-high`, `constant:14,0.20`, `belief`, `belief:rho=0.045,latency=7.5`, `clairvoyant:rho=0.05`.
Learned: `drqn-cmdp-plus`, `drqn-cmdp-plus@paper` (trained for that scenario, whichever it is run
in), `drqn-cmdp-plus:rho=0.04,latency=8`, `drqn-cmdp-plus:dial=3` (the third of its dials),
`drqn-cmdp-plus:dial=3,rho=0.04` (the same, with the ceiling that it is held to), `runs/a` and
`runs/a:rho=0.03` (the folder of a checkpoint). Not ours: `mine.py:Agent` (a class in a file), or a
name that another package offers.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.scenario import Scenario
from holdfast.policy import plugins, rules
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


class CheckpointLocation(NamedTuple):
    """The folder of a learned policy, and the options that set its dial."""

    folder: Path
    options: str


def policy_named(name: str, scenario: Scenario) -> AnyPolicy:
    """Return the policy for a scenario; planning `belief` and `clairvoyant` takes seconds."""
    kind, colon, options = name.partition(":")
    if kind in PLANNED:
        return PLANNED[kind](scenario, _ceilings(name, options))
    if kind == "constant":
        return rules.Constant(_action(name, options))
    if kind in _PLAIN and not colon:
        return _PLAIN[kind](scenario)
    if kind in _PLAIN:
        raise InputError(f"policy {name}: {kind} takes no options")
    location = locate(name, scenario)
    if location is None and plugins.is_policy_plugin(name):
        return plugins.load_policy(name, scenario)
    if location is None:
        raise InputError(f"there is no policy {name!r}: the known ones are {', '.join(NAMES)}")
    return set_dial(name, load(location.folder), location.options)


def trained_for(name: str, scenario: Scenario) -> Scenario | None:
    """Return the scenario that a policy was trained for, or None if it is not learned."""
    location = locate(name, scenario)
    return load(location.folder).manifest.scenario if location else None


def check_world(name: str, scenario: Scenario) -> None:
    """Refuse a shipped policy by its plain name in a world that it was not trained for.

    A scenario is what its parameters say: a file may have the name of another one.
    """
    method, at, _ = name.partition(":")[0].partition("@")
    if at or method not in LEARNED:
        return
    home = trained_for(name, scenario)
    if home is not None and home.hash != scenario.hash:
        _, colon, options = name.partition(":")
        raise InputError(
            f"policy {name}: it is shipped for another scenario {home.name!r} ({home.short_hash}),"
            f" not for this one ({scenario.short_hash}): write {method}@{home.name}{colon}{options}"
            " to use it here"
        )


def portable(name: str, scenario: Scenario) -> Callable[[], AnyPolicy]:
    """Return a picklable function that makes the policy, also where its folder is missing.

    A learned policy is loaded at once. Others are made by the function: plans are slow and large.
    """
    if locate(name, scenario) is None:
        if is_plugin(name):
            policy_named(name, scenario)  # refuse it here, not in a process
        return partial(policy_named, plugins.absolute_name(name), scenario)
    return partial(_itself, policy_named(name, scenario))


def is_plugin(name: str) -> bool:
    """Return whether this is a policy whose code is not ours."""
    return name.partition(":")[0].partition("@")[0] not in NAMES and plugins.is_policy_plugin(name)


def _itself(policy: AnyPolicy) -> AnyPolicy:
    return policy


def set_dial(name: str, checkpoint: Checkpoint, options: str) -> Learned:
    """Return a checkpoint's policy with its dial set by the options."""
    try:
        return checkpoint.policy(_setting(name, options))
    except InputError as error:
        raise InputError(f"policy {name}: {error}") from error


def ceiling_named(name: str, options: str) -> float | None:
    """Return the ceiling on the miss rate in a name's options; a dial's number implies none."""
    parsed = _parse_options(name, options, "rho", "latency", "dial")
    return parsed.get("rho") if "dial" in parsed else _ceilings_of(parsed).miss_rate


def dial_names(name: str, scenario: Scenario) -> list[str]:
    """Return a policy's name with each of its dials; the name itself if it has none.

    The names mean the same in every scenario and working directory.
    """
    location = locate(name, scenario)
    if location is None:
        return [name]
    method, _, trained_for = name.partition(":")[0].partition("@")
    shipped = f"{method}@{trained_for or scenario.name}"
    where = shipped if method in LEARNED else str(location.folder.absolute())
    dials = range(1, len(load(location.folder).manifest.dials) + 1)
    return [f"{where}:dial={number}" for number in dials] or [where]


def locate(name: str, scenario: Scenario) -> CheckpointLocation | None:
    """Return where the policy with this name is, or None if it is not learned."""
    kind, colon, options = name.partition(":")
    method, _, trained_for = kind.partition("@")
    if method in LEARNED:
        return CheckpointLocation(shipped_folder(method, trained_for or scenario.name), options)
    if plugins.is_in_file(name) and not _is_folder(name):
        return None
    # A folder's name may contain a colon, for example in a time.
    whole = not colon or _is_folder(name)
    path, options = (name, "") if whole else name.rpartition(":")[::2]
    known = "/" in path or _is_folder(path)
    return CheckpointLocation(Path(path), options) if known and kind not in NAMES else None


def _is_folder(path: str) -> bool:
    try:
        return path != "" and Path(path).is_dir()
    except OSError:  # for example too long for a file name
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
    """Return the name of a policy whose dial is set by number, with its ceiling added."""
    return f"{name},rho={rho:g}" if ":dial=" in name and 0 < rho < 1 else name


def _setting(name: str, options: str) -> Ceilings | int | None:
    """Return how a dial is set: by its number, for ceilings, or not at all."""
    parsed = _parse_options(name, options, "rho", "latency", "dial")
    if "dial" in parsed and not parsed["dial"].is_integer():
        raise InputError(f"policy {name}: dial must be a whole number, not {parsed['dial']:g}")
    ceilings = _ceilings_of(parsed) if parsed else None
    return int(parsed["dial"]) if "dial" in parsed else ceilings


def _ceilings(name: str, options: str) -> Ceilings:
    return _ceilings_of(_parse_options(name, options, "rho", "latency"))


def _ceilings_of(parsed: Mapping[str, float]) -> Ceilings:
    """Return `rho`, the ceiling on the miss rate, and `latency`, the one on the mean latency."""
    return Ceilings(parsed.get("rho", DEFAULT_RHO), parsed.get("latency"))


def _parse_options(name: str, options: str, *keys: str) -> dict[str, float]:
    parsed: dict[str, float] = {}
    for option in options.split(",") if options else ():
        key, _, value = option.partition("=")
        if key not in keys or key in parsed:
            known = f"{', '.join(keys[:-1])} and {keys[-1]}"
            raise InputError(f"policy {name}: the options are {known}, not {option!r}")
        try:
            parsed[key] = float(value)
        except ValueError:
            raise InputError(f"policy {name}: {key} must be a number, not {value!r}") from None
    return parsed
