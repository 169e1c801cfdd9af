"""The one loop that trains every agent: curves, events, snapshots, and a checkpoint at the end.

An unfinished training in a folder resumes where it stopped, and ends with the weights it
would have had without the interruption.
"""

import csv
import io
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import holdfast
from holdfast import atomic
from holdfast.errors import InputError
from holdfast.learn import dial_search, snapshot
from holdfast.learn.drqn_cmdp_plus import PlusSettings
from holdfast.learn.folder_lock import hold_folder
from holdfast.learn.learner import Figures, Learner, TrainerState
from holdfast.learn.methods import Settings, make_learner
from holdfast.learn.provenance import Provenance, provenance
from holdfast.learn.settings import to_json
from holdfast.learn.tensorboard import Event, EventsWriter, Summary
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
    settings: Settings

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
) -> None:
    """Train, or go on training, in a folder; one that is finished is left as it is.

    The state of a finished training is kept if asked for: a longer training continues from it.
    Without it a longer one starts again, and ends with the same weights.
    """
    if finished(run, folder):
        return
    with hold_folder(folder), one_blas_thread():
        if not finished(run, folder):  # another process may have trained it meanwhile
            _train(run, folder, on_progress, begin)
            if not keep_state:
                (folder / STATE).unlink()


def _train(
    run: Run, folder: Path, on_progress: OnProgress, begin: Callable[[Run], Learner]
) -> None:
    made_by = _claim(run, folder)
    agent = begin(run)
    curve = _resume(agent, folder)
    with _Events(folder, curve) as events:
        saved = time.monotonic()
        while len(curve) < run.units:
            figures = agent.advance()
            curve.append(figures)
            events.write(len(curve), figures)
            on_progress("training", len(curve), figures)
            if time.monotonic() - saved > SECONDS:
                _keep(agent, curve, folder)
                saved = time.monotonic()
    _keep(agent, curve, folder)
    atomic.write(folder / CURVE, _table(curve))
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
    for name in (RUN, STATE, CURVE, checkpoint.WEIGHTS, checkpoint.MANIFEST):
        atomic.sweep(folder / name)
    recorded, made_by = _recorded(folder) if (folder / RUN).exists() else ({}, [])
    if provenance() not in made_by:
        made_by = [*made_by, provenance()]
    elif recorded == run.description():
        return made_by
    record = run.description() | {MADE_BY: made_by}
    atomic.write(folder / RUN, json.dumps(record, indent=1, sort_keys=True).encode())
    return made_by


def _keep(agent: Learner, curve: list[Figures], folder: Path) -> None:
    state = agent.state()
    snapshot.write(folder / STATE, TrainerState(state.trees, state.facts | {"curve": curve}))


def _resume(agent: Learner, folder: Path) -> list[Figures]:
    if not (folder / STATE).exists():
        return []
    state = snapshot.read(folder / STATE, agent.state())
    agent.restore(state)
    curve: list[Figures] = state.facts["curve"]
    return curve


def _table(curve: list[Figures]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=["unit", *curve[0]], lineterminator="\n")
    writer.writeheader()
    for unit, figures in enumerate(curve, start=1):
        writer.writerow({"unit": unit} | {name: f"{value:.7g}" for name, value in figures.items()})
    return text.getvalue().encode()


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
    elif multiplier is None:
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


class _Events:
    """Figures as TensorBoard reads them, written as they come.

    After a resumption they are written anew from the curve, and the old file goes: it may hold
    units that are trained once more, and a new one of the same second would have its name.
    """

    def __init__(self, folder: Path, curve: list[Figures]) -> None:
        place = folder / "events"
        place.mkdir(exist_ok=True)
        for left in place.glob("events.out.tfevents.*"):
            left.unlink()
        # Not its `SummaryWriter`, which leaves semaphores behind when it is killed.
        self._writer = EventsWriter(str(place / "events"))
        for unit, figures in enumerate(curve, start=1):
            self.write(unit, figures)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def write(self, unit: int, figures: Figures) -> None:
        values = [
            Summary.Value(
                tag=f"losses/{name}" if name == "loss" else f"charts/{name}", simple_value=value
            )
            for name, value in figures.items()
        ]
        self._writer.write_event(
            Event(wall_time=time.time(), step=unit, summary=Summary(value=values))
        )
        self._writer.flush()
