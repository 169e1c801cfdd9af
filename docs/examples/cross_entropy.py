"""A learner by the cross-entropy method: train it with `--method cross_entropy.py:CrossEntropy`."""

import numpy as np

from holdfast.learn.learner import TrainerState
from holdfast.policy.learned import Inputs
from holdfast.policy.network import Architecture
from holdfast.sim.vector import AuditVectorEnv

MEMBERS, EPISODES, ELITE, CEILING = 64, 16, 8, 0.05
SIGNALS, ACTIONS = 5, 25


class CrossEntropy:
    """Draws linear policies, keeps those with the least gas below the ceiling, draws anew there."""

    architecture, inputs, multiplier = Architecture(inputs=SIGNALS, features=()), Inputs(), None

    def __init__(self, scenario, seed, units):
        self.rng, self.envs = (
            np.random.default_rng(seed),
            AuditVectorEnv(MEMBERS * EPISODES, scenario),
        )
        self.mean, self.spread = np.zeros((2, SIGNALS + 1, ACTIONS))
        self.spread += 1.0
        self.low, self.high = np.ones(SIGNALS, np.float32), np.zeros(SIGNALS, np.float32)

    def advance(self):
        """Train for one unit: a generation."""
        noise = self.rng.standard_normal((MEMBERS, *self.mean.shape))
        members = self.mean + self.spread * noise
        gas, misses, encounters = self.play(np.repeat(members, EPISODES, axis=0))
        miss_rate = misses / np.maximum(encounters, 1)
        best = np.argsort(gas / EPISODES + 1000 * np.maximum(miss_rate - CEILING, 0))[:ELITE]
        self.mean, self.spread = members[best].mean(axis=0), members[best].std(axis=0) + 0.02
        return {"gas": gas[best].mean() / EPISODES, "miss_rate": miss_rate[best].mean()}

    def play(self, weights):
        """Return gas, misses and encounters of each member, over whole episodes."""
        observations, _ = self.envs.reset(seed=int(self.rng.integers(1 << 31)))
        totals, running = np.zeros((3, len(weights))), np.ones(len(weights), bool)
        while running.any():
            self.low = np.minimum(self.low, observations.min(axis=0))
            self.high = np.maximum(self.high, observations.max(axis=0))
            scores = np.einsum("ns,nsa->na", observations, weights[:, :-1]) + weights[:, -1]
            observations, _, _, over, info = self.envs.step(scores.argmax(axis=1))
            totals += running * (info["gas"], info["miss"], info["encounter"])
            running &= ~over
        return totals.reshape(3, MEMBERS, EPISODES).sum(axis=2)

    def policy_weights(self):
        """Return the weights of the network in `architecture`."""
        mean = self.mean.astype(np.float32)
        return {"action.weight": mean[:-1], "action.bias": mean[-1]}

    def envelope(self):
        """Return the least and the greatest value of each signal so far."""
        return self.low, self.high

    def state(self):
        """Return all that a resumed training needs."""
        trees = {"search": [self.mean, self.spread, self.low, self.high]}
        return TrainerState(trees, {"rng": self.rng.bit_generator.state})

    def restore(self, state):
        """Go on from such a state."""
        self.mean, self.spread, self.low, self.high = state.trees["search"]
        self.rng.bit_generator.state = state.facts["rng"]
