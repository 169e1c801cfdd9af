"""The learned methods by name, and the settings of each."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from holdfast.errors import InputError
from holdfast.learn.drqn_cmdp_plus import DialRange, PlusLearner, PlusSettings
from holdfast.learn.focops import FocopsLearner, FocopsSettings
from holdfast.learn.learner import Learner
from holdfast.learn.multiplier import PidMultiplier, adaptive
from holdfast.learn.plugin_learner import (
    PluginSettings,
    is_plugin_method,
    make_plugin_learner,
    plugin_settings,
)
from holdfast.learn.policy_gradient import (
    GradientLearner,
    GradientSettings,
    RecurrentGradientSettings,
)
from holdfast.learn.r2d2 import R2D2Learner, R2D2Settings
from holdfast.learn.recurrent import RecurrentLearner, RecurrentSettings
from holdfast.learn.value import ValueLearner, ValueSettings
from holdfast.model.scenario import PAPER, Scenario
from holdfast.policy.lagrangian import Ceilings

EpisodeSettings = ValueSettings | GradientSettings | FocopsSettings | RecurrentSettings
Settings = EpisodeSettings | PlusSettings
AnySettings = Settings | PluginSettings

METHODS: dict[str, Settings] = {
    "dqn": ValueSettings(),
    "double-dqn": ValueSettings(double=True),
    "dueling-dqn": ValueSettings(dueling=True),
    "d3qn": ValueSettings(double=True, dueling=True),
    "ppo": GradientSettings(),
    "a2c": GradientSettings(epochs=1, clip_range=None),
    "ppo-lagrangian": GradientSettings(multiplier=adaptive()),
    "drqn-cmdp": RecurrentSettings(),
    "recurrent-ppo-lagrangian": RecurrentGradientSettings(multiplier=adaptive()),
    "pid-lagrangian": GradientSettings(multiplier=PidMultiplier(step=5.0)),
    "focops": FocopsSettings(),
    "r2d2": R2D2Settings(),
    "drqn-cmdp-plus": PlusSettings(),
}


# Settings for scenarios in which other prices keep other ceilings than in `paper`.
PLUS = {
    "drift": PlusSettings(
        dials=DialRange(rho=(0.03, 0.2), miss_price=(0.5, 20.0)),
        default=Ceilings(0.1, 9.1),
    ),
    # An honest node nearly always has a bad block or two among a hundred thousand, and most
    # audits miss them. So the feasible miss rate is high, and latency matters more. Training
    # samples different fleets, because every operator has a different one.
    "field": PlusSettings(
        dials=DialRange(
            rho=(0.55, 0.95),
            latency=(8.0, 60.0),
            miss_price=(0.003, 1.0),
            steepness=0.0,
            latency_price=(0.0002, 0.02),
        ),
        targets=tuple(
            Ceilings(rho, latency)
            for rho in (0.7, 0.75, 0.8, 0.9)
            for latency in (14.0, 21.0, 28.0, 45.0)
        ),
        default=Ceilings(0.8, 21.0),
        ranges={
            "blocks": (50_000, 200_000),
            "malicious_share": (0.003, 0.05),
            "honest_rate": (2e-7, 5e-6),
            "malicious_rate": (3e-4, 3e-3),
            "latency_load": (0.3, 2.0),
            "latency_median": (0.05, 1.0),
        },
    ),
}


def settings_of(method: str, scenario: Scenario = PAPER) -> AnySettings:
    if method not in METHODS and is_plugin_method(method):
        return plugin_settings(method, scenario)
    if method not in METHODS:
        raise InputError(
            f"there is no learned method {method!r}: the known ones are {', '.join(METHODS)}"
        )
    settings = METHODS[method]
    return PLUS.get(scenario.name, settings) if isinstance(settings, PlusSettings) else settings


def with_ceiling(method: str, rho: float) -> Settings:
    """Return the settings of a method with a multiplier that adapts to this miss rate."""
    settings = settings_of(method)
    if isinstance(settings, PlusSettings):
        raise InputError(
            f"{method} is trained for every ceiling at once: its dial is turned at evaluation,"
            f" as in --policy DIR:rho={rho:g}"
        )
    if isinstance(settings, PluginSettings):
        raise InputError(f"{method} has its own way to keep a ceiling: it takes no rho")
    if not settings.multiplier.step:
        raise InputError(f"{method} has a fixed multiplier: it takes no ceiling rho")
    if not 0 < rho < 1:
        raise InputError(f"rho must lie between 0 and 1, not at {rho:g}")
    return replace(settings, multiplier=replace(settings.multiplier, ceiling=rho))


def make_learner(settings: AnySettings, scenario: Scenario, seed: int, units: int) -> Learner:
    """Return an agent at the start of a training of this many units."""
    if isinstance(settings, PlusSettings):
        return PlusLearner(scenario, seed, settings, units)
    if isinstance(settings, PluginSettings):
        return make_plugin_learner(settings, scenario, seed, units)
    return _learner_of(settings)(scenario, seed, settings)


def _learner_of(settings: EpisodeSettings) -> Callable[[Scenario, int, Any], Learner]:
    """Return the class of an agent that learns from one node, episode by episode."""
    match settings:
        case ValueSettings():
            return ValueLearner
        case GradientSettings():
            return GradientLearner
        case FocopsSettings():
            return FocopsLearner
        case R2D2Settings():
            return R2D2Learner
        case RecurrentSettings():
            return RecurrentLearner
