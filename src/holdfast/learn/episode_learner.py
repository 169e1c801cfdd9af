"""What the agents that learn from one node share: environment, weights, multiplier, saved state."""

import numpy as np
import optax

from holdfast.learn import networks
from holdfast.learn.learner import TrainerState
from holdfast.learn.multiplier import Multiplier
from holdfast.learn.networks import Weights
from holdfast.learn.rollout_env import RolloutEnv
from holdfast.model.arrays import Float32Array
from holdfast.model.scenario import Scenario
from holdfast.policy.learned import Inputs
from holdfast.policy.network import Architecture


class EpisodeLearner:
    _optimiser_state: optax.OptState

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        architecture: Architecture,
        inputs: Inputs,
        multiplier: Multiplier,
    ) -> None:
        streams = np.random.SeedSequence(seed).spawn(2)
        self.architecture = architecture
        self.inputs = inputs
        self.multiplier = multiplier
        self._rng = np.random.default_rng(streams[0])
        self._env = RolloutEnv(scenario, inputs, int(streams[1].generate_state(1)[0]))
        self._weights = networks.initial_weights(architecture, self._rng)
        self._policy_weights = networks.to_numpy(self._weights)

    def policy_weights(self) -> dict[str, Float32Array]:
        return self._policy_weights

    def envelope(self) -> tuple[Float32Array, Float32Array]:
        return self._env.low, self._env.high

    def state(self) -> TrainerState:
        return TrainerState(
            trees={
                "weights": self._weights,
                "optimiser": self._optimiser_state,
                "envelope": [self._env.low, self._env.high],
            },
            facts={
                "multiplier": self.multiplier.state(),
                "rng": self._rng.bit_generator.state,
                "env_rng": self._env.rng_state(),
            },
        )

    def restore(self, state: TrainerState) -> None:
        self._set_weights(state.trees["weights"])
        self._optimiser_state = state.trees["optimiser"]
        self._env.low[:], self._env.high[:] = state.trees["envelope"]
        self.multiplier = self.multiplier.restore(state.facts["multiplier"])
        self._rng.bit_generator.state = state.facts["rng"]
        self._env.restore_rng(state.facts["env_rng"])

    def _set_weights(self, weights: Weights) -> None:
        self._weights = weights
        self._policy_weights = networks.to_numpy(weights)
