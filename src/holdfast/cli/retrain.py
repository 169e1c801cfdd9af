"""`holdfast policy retrain`: train a challenger for the fleet that the log of audits shows."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from holdfast import atomic, learn
from holdfast.cli import terminal
from holdfast.cli.control import ControlPlane
from holdfast.cli.home import DEFAULT_HOME, HomeFolder, home_folder
from holdfast.cli.terminal import Json, report
from holdfast.control.inference.audit_log import read_log
from holdfast.control.inference.fits import save_fit
from holdfast.control.inference.retraining import FOLDER, ORDER, alone
from holdfast.control.policies.active import PolicyLoader, ensure_champion
from holdfast.control.policies.aliases import challenge, read_aliases
from holdfast.control.policies.versions import Registry
from holdfast.control.settings.models import read_control
from holdfast.inference.fit import fit
from holdfast.policy import json_schema
from holdfast.policy.lagrangian import Ceilings
from holdfast.policy.serving import Serving
from holdfast.sim.measures import main_figures
from holdfast.storage.database import connect, migrate, transaction

if TYPE_CHECKING:
    from holdfast.learn.retraining import Budget, OnProgress, RetrainingRequest, RetrainingResult

LOW_PRIORITY = 10
MAX_REQUEST_BYTES = 1 << 20


def retrain(
    home: HomeFolder = DEFAULT_HOME,
    rho: Annotated[
        float | None,
        typer.Option(help="Ceiling on the miss rate.", show_default="the champion's"),
    ] = None,
    latency: Annotated[
        float | None, typer.Option(help="Ceiling on the mean latency, in time units.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings. The best is registered.")] = 3,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds per training.")] = 600,
    validation: Annotated[int, typer.Option(min=1, help="Episodes for each dial.")] = 4000,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of the final report.")] = 2000,
    anew: Annotated[bool, typer.Option("--anew", help="Start over instead of resuming.")] = False,
    as_json: Json = False,
) -> None:
    """Train a policy for this fleet and run it in shadow.

    The scenario is fitted to the log first. If the fitted world doesn't allow the champion's
    ceiling, the challenger is trained to keep what the champion keeps there. The champion still
    decides: see `holdfast policy shadow` and `holdfast policy promote`.

    An interrupted retraining resumes when you give the command again, with the log as it was.

    Example: holdfast policy retrain --seeds 2
    """
    learn.check_installed()
    from holdfast.learn.retraining import Budget  # noqa: PLC0415 - the extra `train`

    folder = home_folder(home)
    settings = read_control(folder)
    control = ControlPlane(folder, settings, connect(settings.address(folder)))
    place = folder / FOLDER
    try:
        migrate(control.engine)
        with alone(place):
            os.nice(max(0, LOW_PRIORITY - os.nice(0)))
            if anew:
                (place / ORDER).unlink(missing_ok=True)
            champion = _champion(control)
            ceiling = champion.rho if rho is None else rho
            declared = None if ceiling is None else Ceilings(ceiling, latency)
            budget = Budget(seeds, rounds, validation, episodes)
            request = _resume_or_start(control, place, champion, declared, budget)
            result = _train(request, champion, place)
            version = _register(control, result, request)
            _clear(place)
    finally:
        control.engine.dispose()
    data = _facts(request, result, version, declared)
    report(data, _describe(data, request, declared), as_json=as_json)


def _champion(control: ControlPlane) -> Serving:
    """Return the champion, or the one that the service will start with."""
    ensure_champion(
        control.engine, control.settings.policy, control.settings.scenario, control.now()
    )
    return PolicyLoader(control.engine).now().champion


def _resume_or_start(
    control: ControlPlane,
    place: Path,
    champion: Serving,
    declared: Ceilings | None,
    budget: "Budget",
) -> "RetrainingRequest":
    """Return the request of an interrupted retraining, or a new one from the log as it is now."""
    from holdfast.learn.retraining import RetrainingRequest, make_request  # noqa: PLC0415 - the extra `train`

    path = place / ORDER
    if path.exists():
        terminal.messages.print("… resuming the interrupted retraining", style="dim")
        content = atomic.read(path, at_most=MAX_REQUEST_BYTES)
        return json_schema.read(RetrainingRequest, json_schema.parse(content))
    _clear(place)
    now = control.now()
    log = read_log(control.engine, control.settings.rails.unit, now)
    fitted = fit(log, control.settings.scenario)
    facts = {
        "fit": save_fit(control.engine, fitted, now),
        "at": now,
        "audits": log.audits,
        "nodes": log.nodes,
        "parameters": {name: asdict(value) for name, value in fitted.parameters.items()},
        "champion": champion.version,
    }
    request = make_request(fitted.scenario, log.blocks, champion.policy, declared, budget, facts)
    atomic.write(path, json_schema.dump(request))
    return request


def _train(request: "RetrainingRequest", champion: Serving, place: Path) -> "RetrainingResult":
    from holdfast.learn import retraining  # noqa: PLC0415 - the extra `train`

    with _progress(request) as on_progress:
        return retraining.retrain(request, champion.policy, place, on_progress)


@contextmanager
def _progress(request: "RetrainingRequest") -> Iterator["OnProgress"]:
    """Show the progress of the trainings on a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    quiet = not sys.stderr.isatty()
    with Progress(*columns, console=terminal.messages, disable=quiet) as bars:
        total = 2 * request.budget.rounds  # validation takes about half as long as training
        tasks = [bars.add_task(f"seed {k}", total=total) for k in range(request.budget.seeds)]

        def on_progress(seed: int, phase: str, done: float) -> None:
            reached = done if phase == "training" else request.budget.rounds + done
            bars.update(tasks[seed], description=f"seed {seed}, {phase}", completed=reached)

        yield on_progress


def _register(
    control: ControlPlane, result: "RetrainingResult", request: "RetrainingRequest"
) -> str:
    """Register the checkpoint, run it in shadow, and return its version."""
    author = control.author(f"retrained on {request.facts['audits']} audits")
    name = f"retrained-{request.facts['fit']}"
    registry, scenario = Registry(control.engine), control.settings.scenario
    version = registry.register(str(result.folder), scenario, author.at, name).version
    with transaction(control.engine) as connection:
        aliases = read_aliases(connection)
    if aliases.challenger != version:
        challenge(control.engine, aliases, version, author)
    return version


def _clear(place: Path) -> None:
    """Remove the files of a retraining, the request first: without it nothing is resumed."""
    (place / ORDER).unlink(missing_ok=True)
    for path in place.iterdir():
        if path.is_dir():
            shutil.rmtree(path)


def _facts(
    request: "RetrainingRequest",
    result: "RetrainingResult",
    version: str,
    declared: Ceilings | None,
) -> dict[str, Any]:
    return {
        "version": version,
        "seed": result.seed,
        "ceilings": asdict(request.ceilings),
        "declared": None if declared is None else asdict(declared),
        "fit": request.facts,
        "candidates": [asdict(candidate) for candidate in result.candidates],
        "evaluation": {
            "challenger": main_figures(result.challenger),
            "champion": main_figures(result.champion),
        },
    }


def _describe(
    data: dict[str, Any], request: "RetrainingRequest", declared: Ceilings | None
) -> Iterator[str]:
    if declared is not None and declared != request.ceilings:
        yield f"the fitted world doesn't allow {declared}: trained for what the champion keeps"
    yield f"trained for {request.ceilings} on {request.facts['audits']:,} audits"
    for name, figures in data["evaluation"].items():
        gas, latency, missed = (figures[key]["value"] for key in ("gas", "latency", "miss_rate"))
        yield f"  {name}: gas {gas:.3g}, latency {latency:.3g}, miss rate {missed:.2%}"
    yield f"{data['version'][:12]} runs in shadow from now on: `holdfast policy shadow` compares"
