"""Scenarios: one frozen dataclass holds every parameter of a simulation.

`paper` is the setting of the paper's table, `drift` adds what its text describes beyond that, and
`field` has figures like those of real storage. A mapping (for example from TOML) changes fields.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, get_args

from numpy.typing import ArrayLike

from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.arrays import FloatArray, IntArray
from holdfast.model.detection import Detection, detection_probability, gas, samples
from holdfast.model.observation import HistoryConstants

SHORT_HASH = 12  # digits that are printed
MAX_BLOCKS = 10_000_000  # up to here detection probabilities are correct to 1e-12


def _range(low: float, high: float, default: float) -> Any:
    """Declare a number that must lie between `low` and `high`, both included."""
    return field(default=default, metadata={"low": low, "high": high})


def _check(parameter: Field[Any], value: Any) -> None:
    name = f"scenario field {parameter.name}"
    if parameter.type is Detection:
        if value not in get_args(Detection):
            raise InputError(f'{name}: must be "approximate" or "exact", not {value!r}')
    elif parameter.type is str:
        if not isinstance(value, str) or not value:
            raise InputError(f"{name}: must be a text, not {value!r}")
    else:
        whole = parameter.type is int
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            raise InputError(f"{name}: must be a {'whole ' * whole}number, not {value!r}")
        low, high = parameter.metadata["low"], parameter.metadata["high"]
        if not (math.isfinite(value) and low <= value <= high):
            raise InputError(f"{name}: must lie between {low:g} and {high:g}, not at {value!r}")


@dataclass(frozen=True)
class Scenario:
    """Every parameter of a simulation; the defaults are the scenario `paper`."""

    name: str = "paper"

    # Time units of an episode; it ends after the audit that reaches or passes them.
    horizon: int = _range(1, 10_000, 365)
    # Blocks of the holding, n.
    blocks: int = _range(1, MAX_BLOCKS, 1000)
    # The most blocks that one audit samples; the default is no cap.
    sample_cap: int = _range(1, MAX_BLOCKS, MAX_BLOCKS)
    # "approximate" is the paper's 1 - (1 - c/n)^s, "exact" the hypergeometric probability.
    detection: Detection = "approximate"

    # Probability that a node is malicious when its episode begins.
    malicious_share: float = _range(0, 1, 0.3)
    # Probability per block and unit that it goes bad, on an honest and on a malicious node.
    honest_rate: float = _range(0, 0.999, 0.001)
    malicious_rate: float = _range(0, 0.999, 0.05)
    # Nodes differ: each draws its own rate, log-uniform from rate / spread to rate * spread.
    honest_spread: float = _range(1, 1e6, 1.0)
    malicious_spread: float = _range(1, 1e6, 1.0)

    # Probability per unit that an honest node turns malicious, and a malicious one honest.
    turn_malicious: float = _range(0, 1, 0.0)
    turn_honest: float = _range(0, 1, 0.0)
    # A malicious node multiplies its rate after this many units without a detection.
    quiet_after: int = _range(0, 10_000, 0)
    quiet_factor: float = _range(1, 1e6, 1.0)
    # Honest faults come in bursts, which begin and end with these probabilities per unit and
    # multiply the rate meanwhile.
    burst_start: float = _range(0, 1, 0.0)
    burst_end: float = _range(0, 1, 1.0)
    burst_factor: float = _range(1, 1e6, 1.0)

    # Seconds an answer takes: median * (u / (1 - u))^noise * exp(load effect + tampering effect),
    # u uniform. The load is uniform in [0, 1]; over a unit it stays as it is with the probability
    # `load_memory`, or else is drawn anew.
    latency_median: float = _range(1e-6, 1e6, 0.2)
    latency_noise: float = _range(0, 10, 0.25)
    latency_load: float = _range(0, 10, 0.0)
    latency_tampering: float = _range(0, 10, 0.0)
    load_memory: float = _range(0, 1, 0.9)

    # How the audit history becomes an observation: see HistoryConstants.
    reputation_memory: float = _range(0, 1, HistoryConstants.reputation_memory)
    reputation_passes: float = _range(1e-6, 1e6, HistoryConstants.reputation_passes)
    reputation_failures: float = _range(1e-6, 1e6, HistoryConstants.reputation_failures)
    latency_scale: float = _range(1e-6, 1e6, HistoryConstants.latency_scale)
    failure_scale: float = _range(1e-6, 1e6, HistoryConstants.failure_scale)

    # Weights of the paper's reward (Eq. reward): alpha, beta and gamma_rw.
    reward_detection: float = _range(0, 1e6, 10.0)
    reward_gas: float = _range(0, 1e6, 1.0)
    reward_compute: float = _range(0, 1e6, 0.5)

    def __post_init__(self) -> None:
        for parameter in fields(self):
            _check(parameter, getattr(self, parameter.name))
        for kind, factor in (("honest", "burst"), ("malicious", "quiet")):
            rate, spread = getattr(self, f"{kind}_rate"), getattr(self, f"{kind}_spread")
            if rate * spread * getattr(self, f"{factor}_factor") >= 1:
                raise InputError(
                    f"scenario field {kind}_rate: times {kind}_spread and {factor}_factor it must"
                    " stay below 1, for it is a probability"
                )

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """Every parameter but the name, as JSON holds it."""
        return {
            parameter.name: float(getattr(self, parameter.name))
            if parameter.type is float
            else getattr(self, parameter.name)
            for parameter in fields(self)
            if parameter.name != "name"
        }

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the parameters as canonical JSON: equal worlds have equal hashes."""
        text = json.dumps(self.parameters, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def short_hash(self) -> str:
        return self.hash[:SHORT_HASH]

    @cached_property
    def drifts(self) -> bool:
        """Whether types or bursts change from unit to unit."""
        return self.turn_malicious > 0 or self.turn_honest > 0 or self.burst_start > 0

    @cached_property
    def steady(self) -> bool:
        """Whether a node's rate stays the same through its whole episode."""
        return not self.drifts and self.quiet_factor == 1

    @cached_property
    def burst_share(self) -> float:
        """The share of its time that an honest node spends in bursts."""
        return self.burst_start / (self.burst_start + self.burst_end) if self.burst_start else 0.0

    @cached_property
    def constants(self) -> HistoryConstants:
        return HistoryConstants(
            reputation_memory=self.reputation_memory,
            reputation_passes=self.reputation_passes,
            reputation_failures=self.reputation_failures,
            longest_interval=float(max(GRID.intervals)),
            latency_scale=self.latency_scale,
            failure_scale=self.failure_scale,
        )

    @cached_property
    def samples_of(self) -> IntArray:
        """The blocks that each action samples, by its index."""
        return samples(GRID.ratio_of, self.blocks, self.sample_cap)

    @cached_property
    def gas_of(self) -> FloatArray:
        """The gas of each action's audit, by its index."""
        return gas(self.samples_of, self.blocks)

    def detection_probability(self, corrupted: ArrayLike, sampled: ArrayLike) -> FloatArray:
        return detection_probability(corrupted, sampled, self.blocks, self.detection)


PAPER = Scenario()

# Honest faults: a burst of 5 units on average every 45, ten times the calm rate, so that the mean
# over time is that of `paper`. A year sees a change of type on about a third of the nodes.
DRIFT = Scenario(
    name="drift",
    honest_rate=0.0005,
    malicious_rate=0.03,
    turn_malicious=0.001,
    turn_honest=0.001,
    quiet_after=21,
    quiet_factor=3.0,
    burst_start=0.025,
    burst_end=0.2,
    burst_factor=10.0,
    latency_load=0.8,
    latency_tampering=0.5,
)

FIELD = Scenario(
    name="field",
    blocks=100_000,
    sample_cap=10_000,
    detection="exact",
    malicious_share=0.01,
    honest_rate=1e-6,
    honest_spread=10.0,
    malicious_rate=1e-3,
    malicious_spread=10.0,
    latency_load=0.8,
)

SCENARIOS = {scenario.name: scenario for scenario in (PAPER, DRIFT, FIELD)}


def scenario_named(name: str) -> Scenario:
    if name not in SCENARIOS:
        raise InputError(f"there is no scenario {name!r}: the known ones are {_known_names()}")
    return SCENARIOS[name]


def scenario_from(mapping: Mapping[str, Any]) -> Scenario:
    """Return the scenario named by `base`, with the mapping's other fields set."""
    base = mapping.get("base", PAPER.name)
    if not isinstance(base, str) or base not in SCENARIOS:
        raise InputError(f"scenario field base: must be one of {_known_names()}, not {base!r}")
    changes = {name: value for name, value in mapping.items() if name != "base"}
    return with_changes(SCENARIOS[base], changes)


def with_changes(scenario: Scenario, changes: Mapping[str, Any]) -> Scenario:
    """Return the scenario with these fields set."""
    unknown = sorted(changes.keys() - {parameter.name for parameter in fields(Scenario)})
    if unknown:
        raise InputError(f"scenario field {unknown[0]}: there is no such field")
    return replace(scenario, **changes)


def _known_names() -> str:
    return ", ".join(SCENARIOS)
