"""Trials: policies evaluated side by side, by any executor."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass

from holdfast.executor import LocalExecutor, report_progress, sweep
from holdfast.model.arrays import FloatArray
from holdfast.model.scenario import Scenario
from holdfast.policy.interface import AnyPolicy
from holdfast.processes import cores
from holdfast.sim.evaluation import evaluate
from holdfast.sim.measures import WITHIN, Measures, measure, still_undetected
from holdfast.sim.paired import EpisodeSums, episode_sums

WORTH_PROCESSES = 10_000  # episodes: fewer are run here by the time a process has started


@dataclass(frozen=True, eq=False)
class Trial:
    """A policy, and the episodes to try it in. `build` is picklable and needs no file of ours."""

    name: str
    build: Callable[[], AnyPolicy]
    scenario: Scenario
    episodes: int
    seed: int
    malicious_share: float | None = None
    within: tuple[int, ...] = WITHIN


@dataclass(frozen=True, eq=False)
class TrialResult:
    measures: Measures
    undetected: FloatArray  # as `still_undetected` returns it
    episodes: EpisodeSums  # for differences between policies


# Is called with a trial and how many more of its episodes are done.
OnProgress = Callable[[Trial, float], None]


def local_executor(episodes: int) -> LocalExecutor | None:
    """Return an executor for this number of episodes; None if they are best run here."""
    return LocalExecutor() if episodes >= WORTH_PROCESSES and len(cores()) > 1 else None


def run_trials(
    trials: Sequence[Trial],
    executor: Executor | None,
    on_progress: OnProgress = lambda _trial, _episodes: None,
) -> Iterator[tuple[Trial, Future[TrialResult]]]:
    """Run the trials; yield each as it ends."""
    left = {trial: float(trial.episodes) for trial in trials}

    def advance(trial: Trial, episodes: float) -> None:
        left[trial] -= episodes
        on_progress(trial, episodes)

    for trial, future in sweep(executor, run_trial, trials, advance):
        advance(trial, left[trial])  # workers of a cluster report nothing before
        yield trial, future


def run_trial(trial: Trial) -> TrialResult:
    tally = evaluate(
        trial.build(),
        trial.scenario,
        episodes=trial.episodes,
        seed=trial.seed,
        malicious_share=trial.malicious_share,
        progress=report_progress,
    )
    measures = measure(tally, within=trial.within)
    return TrialResult(measures, still_undetected(tally), episode_sums(tally))
