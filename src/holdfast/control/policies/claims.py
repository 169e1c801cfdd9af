"""Compares the claims of a checkpoint's manifest with what simulation measures.

The author of a checkpoint also wrote its manifest. So promotion measures the figures again in the
scenario that the manifest names, and the envelope in the scenario of this fleet.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from holdfast.errors import InputError
from holdfast.evidence.codecs import plain
from holdfast.evidence.leaf import Check
from holdfast.model.action import GRID
from holdfast.model.arrays import Float32Array, FloatArray, IntArray
from holdfast.model.estimate import Estimate
from holdfast.model.observation import OBSERVATION
from holdfast.policy.checkpoint import Manifest
from holdfast.policy.dial import choose_dial
from holdfast.policy.interface import Policy
from holdfast.policy.learned import Learned
from holdfast.policy.serving import SLACK, Envelope

FIGURES = {"miss_rate": "miss rate", "gas": "gas", "latency": "latency"}
TOLERANCE = 0.1  # share by which a claim may lie beyond the interval that was measured
# Daily and rare audits, of few blocks and of many: all behaviour lies between these.
CORNERS = tuple(
    GRID.index_of(interval, ratio)
    for interval in (min(GRID.intervals), max(GRID.intervals))
    for ratio in (min(GRID.ratios), max(GRID.ratios))
)


@dataclass(frozen=True)
class Claim:
    """A figure that a manifest claims, and the same figure as promotion measured it."""

    figure: str
    claimed: float
    measured: Estimate

    @property
    def kept(self) -> bool:
        low, high = self.measured.low, self.measured.high
        return low * (1 - TOLERANCE) <= self.claimed <= high * (1 + TOLERANCE)

    def __str__(self) -> str:
        interval = f"{self.measured.low:.4g} to {self.measured.high:.4g}"
        return f"{FIGURES[self.figure]} {self.claimed:.4g} claimed, {interval} measured"


def compare_claims(
    manifest: Manifest, policy: Policy[Any], measured: Mapping[str, Estimate]
) -> tuple[Claim, ...]:
    """Return every figure that the manifest claims for this policy, with its measurement."""
    sources: list[Mapping[str, Any]] = []
    dial = policy.dial if isinstance(policy, Learned) else None
    sources += [vars(validated) for validated in manifest.dials if validated.dial == dial]
    if dial is None or dial == _default_dial(manifest):
        sources.append(_report(manifest))
    return tuple(
        Claim(figure, claimed, measured[figure])
        for figure in FIGURES
        for claimed in sorted({*_numbers(source.get(figure) for source in sources)})
    )


def check_claims(manifest: Manifest, claims: Sequence[Claim]) -> Check:
    world = plain(manifest.scenario.name)[:40]
    if not claims:
        return Check("claims", passed=True, detail="its manifest claims no figures")
    broken = [claim for claim in claims if not claim.kept]
    figures = "; ".join(map(str, broken or claims))
    return Check("claims", not broken, plain(f"in the world {world}: {figures}"))


@dataclass
class Watched:
    """A policy that records the smallest and the largest value of every signal it observes."""

    policy: Policy[Any]
    low: Float32Array = field(default_factory=lambda: np.ones(len(OBSERVATION), np.float32))
    high: Float32Array = field(default_factory=lambda: np.zeros(len(OBSERVATION), np.float32))
    privileged: ClassVar[Literal[False]] = False

    def initial_state(self, batch: int) -> Any:
        return self.policy.initial_state(batch)

    def act(self, state: Any, observations: FloatArray) -> tuple[IntArray, Any]:
        np.minimum(self.low, observations.min(axis=0), out=self.low)
        np.maximum(self.high, observations.max(axis=0), out=self.high)
        return self.policy.act(state, observations)


def join_envelopes(watched: Sequence[Watched]) -> Envelope:
    """Return the envelope of everything that any of the policies observed."""
    low = np.min([policy.low for policy in watched], axis=0).tolist()
    high = np.max([policy.high for policy in watched], axis=0).tolist()
    return dict(zip(OBSERVATION, zip(low, high, strict=True), strict=True))


def check_envelope(claimed: Envelope, met: Envelope) -> Check:
    """Name the bounds that are narrowed in operation: that costs more audits at most."""
    wide = [
        f"{signal} {_range(claimed[signal])} claimed, {_range(met[signal])} met"
        for signal in OBSERVATION
        if claimed[signal][0] < met[signal][0] - SLACK
        or claimed[signal][1] > met[signal][1] + SLACK
    ]
    detail = f"the narrower counts: {'; '.join(wide)}" if wide else "simulation met all of it"
    return Check("envelope", passed=True, detail=plain(detail))


def _range(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.4g} to {ends[1]:.4g}"


def _default_dial(manifest: Manifest) -> Any:
    if manifest.default is None:
        return None
    try:
        return choose_dial(manifest.dials, manifest.default.ceilings())
    except InputError:
        return None


def _report(manifest: Manifest) -> Mapping[str, Any]:
    """Return the figures of the evaluation report; a retraining's has the champion's, too."""
    report = manifest.evaluation.get("challenger", manifest.evaluation)
    figures = report if isinstance(report, dict) else {}
    return {
        name: value.get("value") if isinstance(value, dict) else value
        for name, value in figures.items()
    }


def _numbers(values: Iterable[Any]) -> list[float]:
    return [float(value) for value in values if type(value) in {int, float}]
