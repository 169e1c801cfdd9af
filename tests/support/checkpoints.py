"""Networks and checkpoints as training would leave them, with weights drawn by chance."""

from dataclasses import replace

import numpy as np

from holdfast.model.arrays import Float32Array
from holdfast.model.observation import OBSERVATION
from holdfast.model.scenario import PAPER
from holdfast.policy.checkpoint import Default, Manifest
from holdfast.policy.dial import Dial, ValidatedDial
from holdfast.policy.learned import Inputs
from holdfast.policy.network import Architecture, shapes

INPUTS = Inputs(masked=("latency",), frames=2, dial=True)
ARCHITECTURE = Architecture(INPUTS.size, features=(16, 16), recurrent=8, head="dueling")

CHEAP = ValidatedDial(
    Dial(1.0, 0.01, 0.2, 12.0), gas=20.0, miss_rate=0.19, latency=11.8, episodes=500
)
SWIFT = ValidatedDial(
    Dial(9.0, 0.1, 0.05, 6.0), gas=60.0, miss_rate=0.06, latency=6.0, episodes=500
)
STRICT = ValidatedDial(
    Dial(50.0, 0.01, 0.03, 9.0), gas=50.0, miss_rate=0.03, latency=9.0, episodes=500
)

MANIFEST = Manifest(
    method="drqn-cmdp-plus",
    scenario=PAPER,
    architecture=ARCHITECTURE,
    inputs=INPUTS,
    rho=0.05,
    multiplier=None,
    seed=7,
    training={"episodes": 1000, "options": {"learning_rate": 1e-3}},
    envelope=dict.fromkeys(OBSERVATION, (0.0, 1.0)),
    evaluation={},
    code_version="0.1.0",
    dials=(CHEAP, SWIFT, STRICT),
    default=Default(rho=0.05, latency=9.1),
)
PLAIN = replace(
    MANIFEST,
    method="dqn",
    architecture=Architecture(len(OBSERVATION), features=(8,)),
    inputs=Inputs(),
    dials=(),
    default=None,
)


def random_weights(architecture: Architecture, seed: int = 0) -> dict[str, Float32Array]:
    """Return weights large enough that nodes and dials are told apart."""
    draws = np.random.default_rng(seed)
    return {
        name: (3 * shape[0] ** -0.5 * draws.normal(size=shape)).astype(np.float32)
        for name, shape in shapes(architecture).items()
    }
