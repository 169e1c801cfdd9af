"""The learned methods by name, with the settings that make each what it is."""

from dataclasses import replace

from holdfast.errors import InputError
from holdfast.learn.gradient import GradientLearner, GradientSettings
from holdfast.learn.learner import Learner
from holdfast.learn.multiplier import adaptive
from holdfast.learn.plus import PlusLearner, PlusSettings
from holdfast.learn.recurrent import RecurrentLearner, RecurrentSettings
from holdfast.learn.value import ValueLearner, ValueSettings
from holdfast.model.scenario import Scenario

Settings = ValueSettings | GradientSettings | RecurrentSettings | PlusSettings

METHODS: dict[str, Settings] = {
    "dqn": ValueSettings(),
    "double-dqn": ValueSettings(double=True),
    "dueling-dqn": ValueSettings(dueling=True),
    "d3qn": ValueSettings(double=True, dueling=True),
    "ppo": GradientSettings(),
    "a2c": GradientSettings(epochs=1, clip=None),
    "ppo-lagrangian": GradientSettings(multiplier=adaptive()),
    "drqn-cmdp": RecurrentSettings(),
    "drqn-cmdp-plus": PlusSettings(),
}


def settings_of(method: str) -> Settings:
    if method not in METHODS:
        raise InputError(
            f"there is no learned method {method!r}: the known ones are {', '.join(METHODS)}"
        )
    return METHODS[method]


def with_ceiling(method: str, rho: float) -> Settings:
    """Return the settings of a method with a multiplier that adapts to this miss rate."""
    settings = settings_of(method)
    if isinstance(settings, PlusSettings):
        raise InputError(
            f"{method} is trained for every ceiling at once: its dial is turned at evaluation,"
            f" as in --policy DIR:rho={rho:g}"
        )
    if not settings.multiplier.step:
        raise InputError(f"{method} has a fixed multiplier: it takes no ceiling rho")
    if not 0 < rho < 1:
        raise InputError(f"rho must lie between 0 and 1, not at {rho:g}")
    return replace(settings, multiplier=adaptive(rho))


def learner(settings: Settings, scenario: Scenario, seed: int, units: int) -> Learner:
    """Return an agent at the start of its training, which will take so many units."""
    match settings:
        case ValueSettings():
            return ValueLearner(scenario, seed, settings)
        case GradientSettings():
            return GradientLearner(scenario, seed, settings)
        case RecurrentSettings():
            return RecurrentLearner(scenario, seed, settings)
        case PlusSettings():
            return PlusLearner(scenario, seed, settings, units)
