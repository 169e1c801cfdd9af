"""Methods that are not ours: a class in a file or a module, which keeps the interface `Learner`."""

from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.errors import InputError
from holdfast.learn.learner import Learner
from holdfast.model.scenario import Scenario
from holdfast.policy.plugins import (
    absolute_name,
    digest_of,
    is_in_file,
    is_in_module,
    load_object,
)

PARTS = (
    *("architecture", "inputs", "multiplier", "advance"),
    *("policy_weights", "envelope", "state", "restore"),
)


@dataclass(frozen=True)
class PluginSettings:
    """Which class learns; another file is another training."""

    # Why a longer training is no continuation of a shorter one.
    depends_on_length: ClassVar[str] = "its class is made for a number of units"
    learner: str  # `FILE.py:Class` or `module:Class`
    sha256: str  # of the file that defines it


def is_plugin_method(method: str) -> bool:
    """Return whether the method is a class of somebody else."""
    return is_in_file(method) or is_in_module(method)


def plugin_settings(method: str, scenario: Scenario) -> PluginSettings:
    """Return the settings of a method; refuse, before anything is written, a class that is none."""
    settings = PluginSettings(absolute_name(method), digest_of(method))
    make_plugin_learner(settings, scenario, seed=0, units=1)
    return settings


def make_plugin_learner(
    settings: PluginSettings, scenario: Scenario, seed: int, units: int
) -> Learner:
    """Return the agent: `Class(scenario, seed, units)`."""
    made: Any
    try:
        made = load_object(settings.learner)(scenario, seed, units)
    except InputError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise InputError(
            f"{settings.learner} can't be made with a scenario, a seed and units: {reason}"
        ) from error
    for part in PARTS:
        if not hasattr(made, part):
            raise InputError(f"{settings.learner} is no learner: it has no {part}")
    learner: Learner = made
    return learner
