"""`holdfast policy retrain`: from the fleet's log to a challenger that runs in shadow."""

import getpass
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from holdfast import atomic, learn
from holdfast.cli import terminal
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder
from holdfast.cli.terminal import Json, say

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from holdfast.control.settings.models import ControlSettings
    from holdfast.learn.retraining import Budget, OnProgress, RetrainingRequest, RetrainingResult
    from holdfast.policy.lagrangian import Ceilings
    from holdfast.policy.serving import Serving

LOW_PRIORITY = 10
MOST_BYTES = 1 << 20


def retrain(
    home: HomeFolder = DEFAULT_HOME,
    rho: Annotated[
        float | None,
        typer.Option(help="Ceiling on the miss rate.", show_default="the champion's"),
    ] = None,
    latency: Annotated[
        float | None, typer.Option(help="Ceiling on the mean latency, in time units.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings; the best is registered.")] = 3,
    rounds: Annotated[int, typer.Option(min=1, help="How long each of them lasts.")] = 600,
    validation: Annotated[int, typer.Option(min=1, help="Episodes for each dial.")] = 4000,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of the report.")] = 2000,
    anew: Annotated[
        bool, typer.Option("--anew", help="Drop a retraining that was interrupted.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Fit the world to this fleet's log, train in it, and let the result run in shadow.

    Where the fitted world does not allow the champion's ceiling, the challenger is trained to
    keep what the champion keeps there. Nothing that decides is changed: see `holdfast policy
    shadow` and `holdfast policy promote`.

    Interrupted, it goes on with the same command, from the log it began with.

    Example: holdfast policy retrain --seeds 2
    """
    learn.check_installed()
    from holdfast.control.inference.retraining import FOLDER, ORDER, alone  # noqa: PLC0415
    from holdfast.control.settings.models import read_control  # noqa: PLC0415
    from holdfast.learn.retraining import Budget  # noqa: PLC0415
    from holdfast.owner import check_home  # noqa: PLC0415
    from holdfast.policy.lagrangian import Ceilings  # noqa: PLC0415
    from holdfast.storage.database import connect, migrate  # noqa: PLC0415 - as in other commands

    folder = home.expanduser()
    check_home(folder)
    settings = read_control(folder)
    place = folder / FOLDER
    engine = connect(settings.address(folder))
    try:
        migrate(engine)
        with alone(place):
            os.nice(max(0, LOW_PRIORITY - os.nice(0)))
            if anew:
                (place / ORDER).unlink(missing_ok=True)
            champion = _champion(engine, settings)
            wished = champion.rho if rho is None else rho
            declared = None if wished is None else Ceilings(wished, latency)
            budget = Budget(seeds, rounds, validation, episodes)
            request = _request(engine, settings, place, champion, declared, budget)
            result = _trained(request, champion, place)
            version = _registered(engine, settings, result, request)
            _clear(place)
    finally:
        engine.dispose()
    _tell(request, result, version, declared, as_json=as_json)


def _champion(engine: "Engine", settings: "ControlSettings") -> "Serving":
    """Return who decides, or who will once the service is started."""
    from holdfast.control.policies.active import PolicyLoader, ensure_champion  # noqa: PLC0415

    ensure_champion(engine, settings.policy, settings.scenario, _now())
    return PolicyLoader(engine).now().champion


def _request(
    engine: "Engine",
    settings: "ControlSettings",
    place: Path,
    champion: "Serving",
    declared: "Ceilings | None",
    budget: "Budget",
) -> "RetrainingRequest":
    """Return what was begun, or else what the log asks for now."""
    from holdfast.control.inference.audit_log import read_log  # noqa: PLC0415
    from holdfast.control.inference.fits import save_fit  # noqa: PLC0415
    from holdfast.control.inference.retraining import ORDER  # noqa: PLC0415
    from holdfast.inference.fit import fit  # noqa: PLC0415
    from holdfast.learn.retraining import RetrainingRequest, make_request  # noqa: PLC0415
    from holdfast.policy import json_schema  # noqa: PLC0415

    path = place / ORDER
    if path.exists():
        terminal.messages.print("… going on with the retraining that was begun", style="dim")
        return json_schema.read(
            RetrainingRequest, json_schema.parse(atomic.read(path, at_most=MOST_BYTES))
        )
    _clear(place)
    now = _now()
    log = read_log(engine, settings.rails.unit, now)
    fitted = fit(log, settings.scenario)
    number = save_fit(engine, fitted, now)
    parameters = {name: asdict(each) for name, each in fitted.parameters.items()}
    facts = {"fit": number, "at": now, "audits": log.audits, "nodes": log.nodes} | {
        "parameters": parameters,
        "champion": champion.version,
    }
    request = make_request(fitted.scenario, log.blocks, champion.policy, declared, budget, facts)
    atomic.write(path, json_schema.dump(request))
    return request


def _trained(request: "RetrainingRequest", champion: "Serving", place: Path) -> "RetrainingResult":
    from holdfast.learn import retraining  # noqa: PLC0415

    with _progress(request) as on_progress:
        return retraining.retrain(request, champion.policy, place, on_progress)


@contextmanager
def _progress(request: "RetrainingRequest") -> Iterator["OnProgress"]:
    """Show on a terminal how far the trainings are."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    quiet = not sys.stderr.isatty()
    with Progress(*columns, console=terminal.messages, disable=quiet) as bars:
        total = 2 * request.budget.rounds  # validation takes about half as long as training
        tasks = [bars.add_task(f"seed {k}", total=total) for k in range(request.budget.seeds)]

        def on_progress(seed: int, phase: str, done: float) -> None:
            reached = done if phase == "training" else request.budget.rounds + done
            bars.update(tasks[seed], description=f"seed {seed}, {phase}", completed=reached)

        yield on_progress


def _registered(
    engine: "Engine",
    settings: "ControlSettings",
    result: "RetrainingResult",
    request: "RetrainingRequest",
) -> str:
    """Enter the checkpoint, let it run in shadow, and return its version."""
    from holdfast.control.policies.aliases import Author, challenge, read_aliases  # noqa: PLC0415
    from holdfast.control.policies.versions import Registry  # noqa: PLC0415
    from holdfast.storage.database import transaction  # noqa: PLC0415

    served = Registry(engine).register(
        str(result.folder), settings.scenario, _now(), f"retrained-{request.facts['fit']}"
    )
    with transaction(engine) as connection:
        aliases = read_aliases(connection)
    if aliases.challenger != served.version:
        reason = f"retrained on {request.facts['audits']} audits"
        challenge(engine, aliases, served.version, Author(getpass.getuser(), _now(), reason))
    return served.version


def _clear(place: Path) -> None:
    """Remove what a retraining has left, the request first: without it nothing is resumed."""
    from holdfast.control.inference.retraining import ORDER  # noqa: PLC0415

    (place / ORDER).unlink(missing_ok=True)
    for left in place.iterdir():
        if left.is_dir():
            shutil.rmtree(left)


def _tell(
    request: "RetrainingRequest",
    result: "RetrainingResult",
    version: str,
    declared: "Ceilings | None",
    *,
    as_json: bool,
) -> None:
    from holdfast.sim.measures import main_figures  # noqa: PLC0415

    figures = {
        name: main_figures(measures)
        for name, measures in (("challenger", result.challenger), ("champion", result.champion))
    }
    if as_json:
        terminal.print_json(
            {"version": version, "seed": result.seed, "ceilings": asdict(request.ceilings)}
            | {"declared": None if declared is None else asdict(declared)}
            | {"fit": request.facts, "candidates": [asdict(each) for each in result.candidates]}
            | {"evaluation": figures}
        )
        return
    if declared is not None and declared != request.ceilings:
        say(f"the fitted world does not allow {declared}: trained for what the champion keeps")
    say(f"trained for {request.ceilings} on {request.facts['audits']:,} audits")
    for name, each in figures.items():
        say(f"  {name}: {_shown(each)}")
    say(f"{version[:12]} runs in shadow from now on: `holdfast policy shadow` compares")


def _shown(figures: dict[str, Any]) -> str:
    gas, latency, missed = (figures[name]["value"] for name in ("gas", "latency", "miss_rate"))
    return f"gas {gas:.3g}, latency {latency:.3g}, miss rate {missed:.2%}"


def _now() -> int:
    return time.time_ns() // 1_000_000
