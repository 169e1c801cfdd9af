"""Jobs: a training run with all its trials, or the trial of a policy that needs no training.

A job is its description. Its hash is part of the job's name and of its result, so that no result
is mistaken for that of another job.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from holdfast import atomic
from holdfast.errors import InputError
from holdfast.model.estimate import Figure
from holdfast.model.scenario import Scenario
from holdfast.paper.curve import Curve
from holdfast.policy import json_schema
from holdfast.policy.lagrangian import Ceilings

EPISODES = 2000
EVALUATION_SEED = 4242  # never used for tuning
MAX_BYTES = 1 << 22

# Approximate seconds of a unit of training on one core, so that long jobs start first.
_SECONDS_PER_UNIT = {"drqn-cmdp": 0.25, "drqn-cmdp-plus": 0.4, "ppo": 0.05, "a2c": 0.05}
_USUAL_SECONDS_PER_UNIT = 0.15
_SECONDS_TO_PLAN = 20.0
_SECONDS_TO_TRY = 2.0


@dataclass(frozen=True)
class Training:
    """A method, the changes to its settings, its scenario and the length of its training."""

    method: str
    scenario: Scenario
    units: int  # episodes, or rounds of drqn-cmdp-plus
    seed: int = 0
    price: float | None = None  # a fixed lambda
    rho: float | None = None  # the ceiling to which lambda adapts
    masked: tuple[str, ...] = ()
    frames: int = 1
    targets: tuple[Ceilings, ...] = ()  # for which dials are validated
    validation: int | None = None  # episodes per dial, if not the usual number
    alone: bool = False  # the network learns the first of the targets and no other ceilings

    @property
    def variant(self) -> str:
        """Return the changes in short form, for folder names."""
        parts = [
            f"price{self.price:g}" if self.price is not None else "",
            f"rho{self.rho:g}" if self.rho is not None else "",
            *(f"no-{name}" for name in self.masked),
            f"frames{self.frames}" if self.frames > 1 else "",
            "alone" if self.alone else "",
        ]
        return "-".join(part for part in parts if part)


@dataclass(frozen=True)
class Trial:
    """The evaluation of a policy in a scenario."""

    scenario: Scenario
    policy: str = ""  # its name; empty for the one that the job trains
    planned_for: Scenario | None = None  # if not for the one it is tried in
    ceilings: Ceilings | None = None  # to set the dial for

    @property
    def has_ceilings(self) -> bool:
        """Whether it has ceilings, which may be infeasible."""
        return self.ceilings is not None or "rho=" in self.policy


@dataclass(frozen=True)
class Job:
    training: Training | None
    trials: tuple[Trial, ...]
    episodes: int = EPISODES
    seed: int = EVALUATION_SEED

    @cached_property
    def text(self) -> bytes:
        return json_schema.dump(self)

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.text).hexdigest()

    @cached_property
    def id(self) -> str:
        """Return the job's name; that of a training does not depend on its trials."""
        if run := self.training:
            seed = f"seed{run.seed}"
            words = [run.method, run.variant, run.scenario.name, str(run.units), seed]
            content = json_schema.dump(run)
        else:
            (trial,) = self.trials
            home = trial.planned_for.name if trial.planned_for else ""
            words = [trial.policy, home, trial.scenario.name, str(self.episodes)]
            content = self.text
        slug = re.sub(r"[^a-z0-9.]+", "-", "-".join(word for word in words if word))
        return f"{slug}-{hashlib.sha256(content).hexdigest()[:8]}"

    @property
    def seconds(self) -> float:
        """Return roughly how long the job takes, to order jobs and to estimate the rest."""
        if run := self.training:
            seconds_per_unit = _SECONDS_PER_UNIT.get(run.method, _USUAL_SECONDS_PER_UNIT)
            return run.units * seconds_per_unit + _SECONDS_TO_TRY * len(self.trials)
        planned = self.trials[0].policy.startswith(("belief", "clairvoyant"))
        return _SECONDS_TO_PLAN if planned else _SECONDS_TO_TRY


@dataclass(frozen=True)
class Tried:
    measures: dict[str, Figure]
    out_of_reach: str | None = None  # why no trial was possible at these ceilings


@dataclass(frozen=True)
class Done:
    """The result of a job."""

    digest: str
    multiplier: float | None  # the lambda that training ended with
    curve: Curve | None
    trials: tuple[Tried, ...]  # in the order of the job's


def done_path(out: Path, job: Job) -> Path:
    return out / "jobs" / f"{job.id}.json"


def run_folder(out: Path, job: Job) -> Path:
    return out / "runs" / job.id


def read_done(out: Path, job: Job) -> Done | None:
    """Return the job's result, or None if it has to run (again)."""
    path = done_path(out, job)
    if not path.exists():
        return None
    try:
        done = json_schema.read(Done, json_schema.parse(atomic.read(path, at_most=MAX_BYTES)))
    except InputError:
        return None
    matches = done.digest == job.digest and len(done.trials) == len(job.trials)
    return done if matches else None
