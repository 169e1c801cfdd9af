"""The one loop that trains every agent: curves, events, snapshots, and a checkpoint at the end.

An unfinished training in a folder resumes where it stopped, and ends with the weights it
would have had without the interruption.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import holdfast
from holdfast import atomic
from holdfast.errors import InputError
from holdfast.learn import dial_search, snapshot
from holdfast.learn.curves import UNIT, Events, as_csv
from holdfast.learn.drqn_cmdp_plus import PlusSettings
from holdfast.learn.evaluation_curve import COLUMNS as EVALUATION_COLUMNS
from holdfast.learn.evaluation_curve import evaluate_agent
from holdfast.learn.folder_lock import hold_folder
from holdfast.learn.learner import Figures, Learner, TrainerState
from holdfast.learn.methods import AnySettings, make_learner
from holdfast.learn.plugin_learner import PluginSettings
from holdfast.learn.provenance import Provenance, provenance
from holdfast.learn.settings import to_json
from holdfast.learn.settings_changes import settings_of_keys
from holdfast.learn.threads import one_blas_thread
from holdfast.model.observation import OBSERVATION
from holdfast.model.scenario import Scenario
from holdfast.policy import checkpoint, json_schema
from holdfast.policy.checkpoint import Default, Manifest
from holdfast.policy.dial import ValidatedDial
from holdfast.sim.evaluation import evaluate
from holdfast.sim.measures import main_figures, measure

RUN = "run.json"
MADE_BY = "made_by"
STATE = "state.safetensors"
CURVE = "curve.csv"
EVALUATION = "evaluation.csv"
SECONDS = 15.0  # between two snapshots: one takes a tenth of a second

# Of the report in the manifest, and of the dials: no other evaluation uses these episodes.
VALIDATION_SEED = 1_000_003
VALIDATION_EPISODES = 2000

# Is called with the phase ("training", "validation"), the units done and the figures of the last.
OnProgress = Callable[[str, float, Figures], None]


@dataclass(frozen=True)
class Run:
    """One training: the same run gives the same weights."""

    method: str
    scenario: Scenario
    seed: int
    units: int  # episodes; for drqn-cmdp-plus rounds of some thousand decisions
    settings: AnySettings

    def __post_init__(self) -> None:
        if self.units < 1:
            raise InputError(f"a training has at least one episode or round, not {self.units}")
        if self.seed < 0:
            raise InputError(f"a seed is a whole number from 0 on, not {self.seed}")

    def description(self) -> dict[str, Any]:
        described: dict[str, Any] = to_json(self)
        return described


def begun(run: Run) -> Learner:
    """Return the agent that a run trains, at its start."""
    return make_learner(run.settings, run.scenario, run.seed, run.units)


def train(
    run: Run,
    folder: Path,
    on_progress: OnProgress = lambda _phase, _done, _figures: None,
    begin: Callable[[Run], Learner] = begun,
    *,
    keep_state: bool = False,
    evaluate_every: int | None = None,
) -> None:
    """Train, or go on training, in a folder; one that is finished is left as it is.

    With `evaluate_every`, the policy is evaluated on fixed episodes after every so many units.

    The state of a finished training is kept if asked for: a longer training continues from it.
    Without it a longer one starts again, and ends with the same weights.
    """
    if finished(run, folder):
        return
    with hold_folder(folder), one_blas_thread():
        if not finished(run, folder):  # another process may have trained it meanwhile
            _train(run, folder, on_progress, begin, evaluate_every)
            if not keep_state:
                (folder / STATE).unlink()


@dataclass
class _Curves:
    """What a training has shown so far: figures of every unit, and of every evaluation."""

    units: list[Figures]
    evaluations: list[Figures]


def _train(
    run: Run,
    folder: Path,
    on_progress: OnProgress,
    begin: Callable[[Run], Learner],
    evaluate_every: int | None,
) -> None:
    made_by = _claim(run, folder)
    agent = begin(run)
    curves = _resume(agent, folder)
    keys = {"method": run.method, "scenario": run.scenario.name, "seed": run.seed}
    settings = keys | dict(settings_of_keys(run.settings))
    with Events(folder, settings, curves.units, curves.evaluations) as events:
        saved = time.monotonic()
        while (done := len(curves.units)) < run.units:
            figures = agent.advance()
            curves.units.append(figures)
            events.write(done + 1, figures)
            if evaluate_every and (done + 1) % evaluate_every == 0:
                evaluated = evaluate_agent(agent, run.settings, run.scenario)
                curves.evaluations.append({UNIT: done + 1} | evaluated)
                events.write_evaluation(curves.evaluations[-1])
            on_progress("training", done + 1, figures)
            if time.monotonic() - saved > SECONDS:
                _keep(agent, curves, folder)
                saved = time.monotonic()
    _keep(agent, curves, folder)
    rows = [{UNIT: unit} | figures for unit, figures in enumerate(curves.units, start=1)]
    atomic.write(folder / CURVE, as_csv(rows, list(rows[0])))
    if curves.evaluations:
        table = as_csv(curves.evaluations, [UNIT, *EVALUATION_COLUMNS])
        atomic.write(folder / EVALUATION, table)
    dials = _dials(run, agent, on_progress)
    manifest = _manifest(run, agent, dials, made_by)
    checkpoint.save(folder, manifest, agent.policy_weights())


def finished(run: Run, folder: Path) -> bool:
    """Return whether the folder holds the end of this run; refuse it if it is another's.

    A shorter training that is otherwise the same is not another's, if it can be extended.
    """
    ended = (folder / checkpoint.MANIFEST).exists()
    if not (folder / RUN).exists():
        if ended:
            raise InputError(f"{folder} holds a checkpoint already: choose another folder")
        return False
    recorded, _ = _recorded(folder)
    if recorded != run.description():
        _check_extends(run, recorded, folder)
        return False
    # The checkpoint is that of a shorter training until this one ends.
    return ended and _trained_units(folder) == run.units


def _check_extends(run: Run, recorded: dict[str, Any], folder: Path) -> None:
    """Refuse the folder unless the run in it becomes this one by training longer."""
    if recorded | {"units": run.units} != run.description():
        raise InputError(f"{folder} holds another training: choose another folder")
    before = recorded["units"]
    if before > run.units:
        raise InputError(
            f"{folder} holds another training, of {before} units, which is longer than"
            f" {run.units}: choose another folder"
        )
    if reason := getattr(run.settings, "depends_on_length", ""):
        raise InputError(
            f"{folder} holds another training, of {before} units, which can't be extended to"
            f" {run.units}: {reason}; choose another folder"
        )


def _trained_units(folder: Path) -> int:
    content = atomic.read(folder / checkpoint.MANIFEST, at_most=checkpoint.MAX_BYTES)
    units: int = json_schema.parse(content).get("training", {}).get("units")
    return units


def _recorded(folder: Path) -> tuple[dict[str, Any], list[Provenance]]:
    """Return the description of the run in a folder, and what has computed it so far."""
    recorded = json_schema.parse(atomic.read(folder / RUN, at_most=1 << 20))
    made_by: list[Provenance] = recorded.pop(MADE_BY, [])
    return recorded, made_by


def _claim(run: Run, folder: Path) -> list[Provenance]:
    """Make the folder this run's own, and clear away what a killed process left there.

    Return what has computed the run: more than one thing if it resumes on another processor or
    with other versions.
    """
    for name in (RUN, STATE, CURVE, EVALUATION, checkpoint.WEIGHTS, checkpoint.MANIFEST):
        atomic.sweep(folder / name)
    recorded, made_by = _recorded(folder) if (folder / RUN).exists() else ({}, [])
    if provenance() not in made_by:
        made_by = [*made_by, provenance()]
    elif recorded == run.description():
        return made_by
    record = run.description() | {MADE_BY: made_by}
    atomic.write(folder / RUN, json.dumps(record, indent=1, sort_keys=True).encode())
    return made_by


def _keep(agent: Learner, curves: _Curves, folder: Path) -> None:
    state = agent.state()
    facts = {"curve": curves.units, "evaluations": curves.evaluations}
    snapshot.write(folder / STATE, TrainerState(state.trees, state.facts | facts))


def _resume(agent: Learner, folder: Path) -> _Curves:
    if not (folder / STATE).exists():
        return _Curves([], [])
    state = snapshot.read(folder / STATE, agent.state())
    agent.restore(state)
    return _Curves(state.facts["curve"], state.facts.get("evaluations", []))


def _dials(run: Run, agent: Learner, on_progress: OnProgress) -> tuple[ValidatedDial, ...]:
    settings = run.settings
    if not isinstance(settings, PlusSettings):
        return ()
    return dial_search.search_dials(
        agent.architecture,
        agent.policy_weights(),
        run.scenario,
        settings.dials.sample_around,
        settings.targets,
        seed=VALIDATION_SEED,
        episodes=settings.validation,
        on_progress=lambda share: on_progress("validation", share * run.units, {}),
    )


def _manifest(
    run: Run, agent: Learner, dials: tuple[ValidatedDial, ...], made_by: list[Provenance]
) -> Manifest:
    low, high = agent.envelope()
    multiplier = agent.multiplier
    default = None
    if isinstance(run.settings, PlusSettings):
        ceilings = run.settings.default
        default = Default(ceilings.miss_rate, ceilings.latency)
    elif multiplier is None and not isinstance(run.settings, PluginSettings):
        raise TypeError("a method without a dial has a multiplier")
    description = run.description()
    manifest = Manifest(
        method=run.method,
        scenario=run.scenario,
        architecture=agent.architecture,
        inputs=agent.inputs,
        rho=multiplier.ceiling if multiplier and multiplier.step else None,
        multiplier=multiplier.value if multiplier else None,
        seed=run.seed,
        training={
            "units": run.units,
            "settings": description["settings"],
            MADE_BY: made_by,
        },
        envelope={
            name: (float(lowest), float(highest))
            for name, lowest, highest in zip(OBSERVATION, low, high, strict=True)
        },
        evaluation={},
        code_version=holdfast.__version__,
        dials=dials,
        default=default,
    )
    return replace(manifest, evaluation=_report(run, manifest, agent))


def _report(run: Run, manifest: Manifest, agent: Learner) -> dict[str, Any]:
    """Return what the policy achieves, with its dial at the default if that can be kept."""
    try:
        policy = checkpoint.Checkpoint(manifest, agent.policy_weights()).policy()
    except InputError as error:
        return {"refused": str(error)}
    tally = evaluate(policy, run.scenario, episodes=VALIDATION_EPISODES, seed=VALIDATION_SEED)
    figures = main_figures(measure(tally))
    return {"episodes": VALIDATION_EPISODES, "seed": VALIDATION_SEED, **figures}
