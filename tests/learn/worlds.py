"""A world so plain that every agent masters it in seconds, and settings with which it does."""

from dataclasses import replace

from holdfast.learn.drqn_cmdp_plus import DialRange, PlusSettings
from holdfast.learn.focops import FocopsSettings
from holdfast.learn.methods import METHODS, Settings
from holdfast.learn.policy_gradient import GradientSettings
from holdfast.learn.recurrent import RecurrentSettings
from holdfast.learn.training import Run
from holdfast.learn.value import ValueSettings
from holdfast.model.scenario import Scenario
from holdfast.policy.dial import Dial
from holdfast.policy.lagrangian import Ceilings

# A malicious node fails every audit and an honest one none. An audit of an honest node costs nine
# times what it earns; one of a malicious node pays, so that it pays to make many.
VISIBLE = Scenario(
    name="visible",
    horizon=30,
    blocks=100,
    malicious_share=0.5,
    malicious_rate=0.9,
    honest_rate=0.0,
    reward_detection=1.0,
    reward_gas=3.0,
    reward_compute=0.05,
)

LATE = Dial(miss_price=2.0, latency_price=0.7, rho=0.05, latency=1.5)  # which makes waiting dear


def quick(method: str) -> Settings:
    """Return the settings of a method with a small network that learns fast."""
    match METHODS[method]:
        case ValueSettings() as settings:
            return replace(
                settings,
                features=(32, 32),
                learning_rate=2e-3,
                discount=0.98,
                epsilon_decay=0.98,
                target_update_interval=5,
                batch_size=32,
            )
        case GradientSettings() as settings:
            return replace(
                settings,
                features=(32,),
                learning_rate=3e-3,
                discount=0.98,
                entropy_coefficient=0.05,
            )
        case FocopsSettings() as settings:
            return replace(settings, features=(32,), learning_rate=3e-3, discount=0.98)
        case RecurrentSettings() as settings:
            return replace(
                settings,
                features=(32,),
                recurrent=16,
                learning_rate=3e-3,
                discount=0.98,
                epsilon_decay=0.98,
                target_update_interval=5,
                batch_size=16,
            )
        case PlusSettings() as settings:
            return replace(
                settings,
                features=(32,),
                recurrent=16,
                nodes=32,
                sequence_length=8,
                buffer_size=20,
                gradient_steps=16,
                batch_size=32,
                learning_rate=5e-3,
                tau=0.05,
                dials=DialRange(
                    latency=(1.0, 2.0), miss_price=(1.0, 3.0), latency_price=(0.5, 1.0)
                ),
                targets=(Ceilings(0.1), Ceilings(0.2, 5.0)),
                default=Ceilings(0.5),
                validation=10,
            )


def run_of(method: str, *, units: int = 40, seed: int = 0, scenario: Scenario = VISIBLE) -> Run:
    return Run(method, scenario, seed, units, quick(method))
