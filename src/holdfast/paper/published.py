"""The figures that the paper reports, by the names of its tables."""

from typing import NamedTuple

CEILING = 0.05  # rho-bar of every experiment but the frontier


class Published(NamedTuple):
    """A row of the paper; None if it gives no figure."""

    gas: float
    latency: float | None
    miss_rate: float
    detections_per_100: float | None

    def figures(self) -> dict[str, float]:
        return {name: value for name, value in self._asdict().items() if value is not None}


# Table "Test-set comparison (100 episodes, matched seeds)", tab:main.
MAIN = {
    "dqn": Published(17.0, 4.9, 0.130, 7517),
    "double-dqn": Published(10.7, 6.4, 0.276, 5674),
    "dueling-dqn": Published(16.3, 4.2, 0.104, 8658),
    "d3qn": Published(20.8, 3.2, 0.081, 11565),
    "ppo": Published(12.3, 8.4, 0.173, 4381),
    "a2c": Published(6.3, 14.7, 0.051, 2562),
    "ppo-lagrangian": Published(49.7, 2.0, 0.504, 16387),
    "drqn-cmdp": Published(8.4, 9.1, 0.075, 4111),
    "fixed-high": Published(49.7, 2.0, 0.504, 16387),
    "fixed-low": Published(2.6, 16.1, 0.580, 2224),
    "heuristic": Published(49.3, 2.0, 0.504, 16272),
    "bayesian": Published(45.1, 3.9, 0.569, 8397),
    "oracle": Published(5.0, 14.7, 0.401, 2498),
}

# Table "2x2 decomposition: Gas / Miss%", tab:decomp, by network and price of a miss.
DECOMPOSITION = {
    ("d3qn", "fixed λ = 50"): Published(6.9, None, 0.081, None),
    ("d3qn", "adaptive λ"): Published(6.9, None, 0.047, None),
    ("drqn", "fixed λ = 50"): Published(7.3, None, 0.043, None),
    ("drqn", "adaptive λ"): Published(6.4, None, 0.067, None),
}
