"""Results that nobody measured: they fill a folder at once, to try what reads them."""

from pathlib import Path

import numpy as np

from holdfast import atomic
from holdfast.model.estimate import Figure
from holdfast.paper.curve import Curve
from holdfast.paper.experiments import EXPERIMENTS, Effort, Programme
from holdfast.paper.job import Done, Job, Trial, Tried, done_path
from holdfast.paper.published import MAIN
from holdfast.policy import json_schema

# Gas, latency and miss rate of what the paper has no row for.
OTHERS = {
    "recurrent-ppo-lagrangian": (6.3, 14.7, 0.051),
    "pid-lagrangian": (6.3, 14.7, 0.051),
    "focops": (28.3, 4.3, 0.310),
    "r2d2": (8.2, 9.3, 0.060),
    "drqn-cmdp-plus": (6.1, 8.8, 0.046),
    "belief": (5.8, 8.9, 0.048),
    "clairvoyant": (4.9, 13.9, 0.050),
}


def fill(out: Path, effort: Effort, experiments: list[str] | None = None) -> None:
    """Leave a result of every job in the folder."""
    (out / "jobs").mkdir(parents=True, exist_ok=True)
    for job in Programme(effort).jobs(experiments or list(EXPERIMENTS)):
        atomic.write(done_path(out, job), json_schema.dump(invented(job)))


def invented(job: Job) -> Done:
    rng = np.random.default_rng(list(bytes.fromhex(job.id[-8:])))
    run = job.training
    if run is None:
        return Done(job.digest, None, None, tuple(_tried(trial, "", rng) for trial in job.trials))
    trials = tuple(_tried(trial, run.method, rng, run.rho) for trial in job.trials)
    price = 10.0 if run.price is None else run.price
    final = price if run.rho is None else min(200.0, 100 * (0.05 / run.rho) ** 0.7)
    episodes = np.unique(np.linspace(min(30, run.units), run.units, 100).round().astype(int))
    share = episodes / run.units
    returns = 400 * (1 - np.exp(-4 * share)) + 40 * rng.normal(size=len(share)) - 300
    curve = Curve(
        episode=tuple(episodes.tolist()),
        returns=() if run.method == "drqn-cmdp-plus" else tuple(returns.round(2).tolist()),
        multiplier=tuple((price + (final - price) * share).round(3).tolist()),
    )
    plus = run.method == "drqn-cmdp-plus"
    return Done(job.digest, None if plus else final, curve, trials)


def _tried(trial: Trial, method: str, rng: np.random.Generator, rho: float | None = None) -> Tried:
    name = method or trial.policy.partition(":")[0]
    if trial.ceilings and trial.ceilings.miss_rate < 0.03:
        return Tried({}, out_of_reach="no dial stayed below a miss rate of 0.01")
    if name in OTHERS:
        gas, latency, miss_rate = OTHERS[name]
    elif name == "constant":
        interval, ratio = map(float, trial.policy.partition(":")[2].split(","))
        gas = 365 / interval * (21 + 500 * ratio) / 521
        latency, miss_rate = interval * 1.1, float(np.exp(-0.6 * interval * ratio))
    else:
        row = MAIN[name].figures()
        gas, latency, miss_rate = row["gas"], row["latency"], row["miss_rate"]
    ceiling = trial.ceilings.miss_rate if trial.ceilings else rho
    if ceiling:
        miss_rate, gas = miss_rate * (ceiling / 0.05) ** 0.8, gas * (0.05 / ceiling) ** 0.4
    miss_rate *= (0.3 / trial.scenario.malicious_share) ** 0.3
    noise = rng.normal(0, 0.08 if method else 0.0, 3)
    figures = {
        "gas": gas * np.exp(noise[0]),
        "latency": latency * np.exp(noise[1]),
        "miss_rate": min(miss_rate * np.exp(noise[2]), 0.95),
        "miss_rate_honest": min(2 * miss_rate * np.exp(noise[2]), 0.95),
        "detections_per_100": 36_500 / latency,
        "detected_within_14": 0.9,
    }
    return Tried(
        {key: Figure(float(x), float(x * 0.99), float(x * 1.01)) for key, x in figures.items()}
    )
