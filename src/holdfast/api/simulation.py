"""Scenarios, policies, evaluation and training, as `holdfast.scenario` and its neighbours."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from holdfast import learn
from holdfast.api.arguments import check_path, check_seed, check_text
from holdfast.errors import InputError
from holdfast.executor import LocalExecutor
from holdfast.model.scenario import Scenario, with_changes
from holdfast.policy.interface import AnyPolicy
from holdfast.policy.registry import check_world, policy_named
from holdfast.processes import cores
from holdfast.sim import evaluation
from holdfast.sim.measures import Measures, measure
from holdfast.sim.scenario_file import load_scenario


def scenario(name_or_path: str | Path, **changes: Any) -> Scenario:
    """Return a scenario by its name (`paper`, `drift`, `field`) or from a TOML file.

    Keyword arguments set single fields.

    >>> import holdfast
    >>> holdfast.scenario("field", blocks=5000).blocks
    5000
    """
    return with_changes(_as_scenario(name_or_path), changes)


def policy(spec: str, scenario: Scenario | str | Path = "paper") -> AnyPolicy:
    """Return the policy that a name such as `belief:rho=0.05` or a checkpoint's folder stands for.

    `holdfast evaluate --help` lists the names. A policy decides for many nodes at once.

    >>> import holdfast
    >>> two_speed = holdfast.policy("two-speed")
    >>> state = two_speed.initial_state(3)
    """
    return _policy(check_text(spec, "a policy"), _as_scenario(scenario))


def evaluate(
    policy: AnyPolicy | str,
    scenario: Scenario | str | Path = "paper",
    *,
    episodes: int = 1000,
    seed: int = 0,
) -> Measures:
    """Run a policy on simulated episodes and return what it costs and finds, with 95 % intervals.

    The policy is a name, or any object with `initial_state(batch)` and
    `act(state, observations)`. Equal seeds give equal episodes, whatever the policy.

    >>> import holdfast
    >>> measures = holdfast.evaluate("fixed-high", episodes=100)
    >>> measures.miss_rate.low <= measures.miss_rate.value <= measures.miss_rate.high
    True
    """
    world = _as_scenario(scenario)
    given: Any = policy  # None, too, where a caller checks no types
    named = given is None or isinstance(given, str)
    chosen = _policy(check_text(given, "a policy"), world) if named else given
    return measure(evaluation.evaluate(chosen, world, episodes=episodes, seed=check_seed(seed)))


def train(
    method: str,
    scenario: Scenario | str | Path,
    out: str | Path,
    *,
    seeds: Iterable[int] = (0,),
    units: int = 600,
    rho: float | None = None,
    settings: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    executor: Executor | None = None,
    on_progress: Callable[[int, str, float], None] = lambda _seed, _phase, _units: None,
) -> list[Path]:
    """Train a policy in simulation, once per seed, and return the folders of the checkpoints.

    A single seed trains in `out` itself, several in `out/seed-K`. The training takes that many
    `units`: episodes, or rounds for `drqn-cmdp-plus`. Run again, an interrupted training resumes.
    `rho` is the ceiling on the miss rate, for methods that are trained for one. `settings` changes
    settings of the method, as in `{"learning_rate": 5e-4}`; `holdfast train --method NAME
    --show-settings` lists them. At most `jobs`
    seeds train at once, one per core by default; from a script, call this under
    `if __name__ == "__main__":`, because they train in processes. Any other executor will do, such
    as that of a dask cluster's client. Needs the extra `train`.

    >>> import holdfast
    >>> (folder,) = holdfast.train("dqn", "paper", "runs/dqn", units=2)
    >>> holdfast.evaluate(str(folder), episodes=10).audits.value > 0
    True
    """
    learn.check_installed()
    from holdfast.learn import methods, pool, settings_changes, training  # noqa: PLC0415

    world, folder = _as_scenario(scenario), check_path(out, "the output folder")
    method = check_text(method, "a method")
    usual = methods.settings_of(method, world) if rho is None else methods.with_ceiling(method, rho)
    chosen_settings = settings_changes.change_settings(
        usual, settings_changes.flat_changes(settings or {}), method
    )
    chosen = list(dict.fromkeys(map(check_seed, seeds)))
    if not chosen:
        raise InputError("a training needs at least one seed")
    plan = [
        pool.Job(
            training.Run(method, world, seed, units, chosen_settings),
            folder / f"seed-{seed}" if len(chosen) > 1 else folder,
        )
        for seed in chosen
    ]

    def report(job: pool.Job, phase: str, done: float, _figures: dict[str, float]) -> None:
        on_progress(job.run.seed, phase, done)

    unfinished = [job for job in plan if not training.finished(job.run, job.folder)]
    at_once = min(len(unfinished), jobs or len(cores()))
    with ExitStack() as stack:
        if executor is None and len(unfinished) > 1:
            executor = stack.enter_context(LocalExecutor(at_once))
        pool.train_all(unfinished, executor, report)
    return [job.folder for job in plan]


def _policy(name: str, world: Scenario) -> AnyPolicy:
    check_world(name, world)
    return policy_named(name, world)


def _as_scenario(scenario: Scenario | str | Path) -> Scenario:
    if isinstance(scenario, Scenario):
        return scenario
    return load_scenario(check_text(scenario, "a scenario"))
