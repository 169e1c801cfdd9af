"""`holdfast plan`: a budget becomes a ceiling on misses, a ceiling or a deadline becomes a cost."""

import math
import shlex
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import terminal
from holdfast.cli.evaluate import episode_bar
from holdfast.cli.executor import Cluster, executor_for
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder
from holdfast.cli.terminal import Json, say
from holdfast.errors import InputError
from holdfast.pdp.field import DEFAULT_SECTORS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.answer import Answer
    from holdfast.control.planning.costs import Currency, Fleet, Prices
    from holdfast.control.planning.planner import PlanRequest
    from holdfast.control.settings.models import ControlSettings
    from holdfast.model.scenario import Scenario

GWEI = 1e-9  # of an ether


def plan(
    *,
    gas_per_month: Annotated[
        float | None, typer.Option(min=0, help="A budget: gas on the ledger, of all holdings.")
    ] = None,
    money_per_month: Annotated[
        float | None, typer.Option(min=0, help="A budget: money, by the prices below.")
    ] = None,
    units: Annotated[
        float | None, typer.Option(min=0, help="A budget: normalised gas a month and holding.")
    ] = None,
    ceiling: Annotated[
        float | None, typer.Option(min=0, max=1, help="The miss rate to stay below.")
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(metavar="TIME", help='The time to find damage in, as "7 days".')
    ] = None,
    share: Annotated[
        float, typer.Option(min=0, max=1, help="The share of damage to find by the deadline.")
    ] = 0.95,
    latency: Annotated[
        str | None, typer.Option(metavar="TIME", help="The mean latency to stay below as well.")
    ] = None,
    normalised: Annotated[
        bool,
        typer.Option("--normalised", help="Without a budget: normalised gas is what counts."),
    ] = False,
    gas_price: Annotated[float | None, typer.Option(min=0, help="Gwei for a unit of gas.")] = None,
    ether_price: Annotated[float | None, typer.Option(min=0, help="Money for an ether.")] = None,
    batched: Annotated[
        bool, typer.Option("--batched", help="Count gas as if batches on the ledger were full.")
    ] = False,
    holdings: Annotated[
        int | None, typer.Option(min=1, help="How many there are; else the home's, or 1.")
    ] = None,
    blocks: Annotated[
        int | None, typer.Option(min=1, help="Blocks of each; else the home's, or the scenario's.")
    ] = None,
    sectors: Annotated[
        int | None, typer.Option(help=f"Sectors a block; else the home's, or {DEFAULT_SECTORS}.")
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE.toml", help="The world to plan in; else the home's."),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME|DIR", help="The policy whose dial to set; else who decides."),
    ] = None,
    references: Annotated[
        bool, typer.Option(help="Show beside it what rules and the planner `belief` would do.")
    ] = True,
    episodes: Annotated[
        int, typer.Option(min=10, help="Episodes for each setting, and four times for the plan.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds give equal plans.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.svg|.png", help="Draw the frontier as well.")
    ] = None,
    home: HomeFolder = DEFAULT_HOME,
    cluster: Cluster = None,
    as_json: Json = False,
) -> None:
    """Turn a budget into a ceiling on misses, or a ceiling or a deadline into a cost.

    Every setting of the policy's dial is simulated. The best that keeps what you ask for is tried
    once more on fresh episodes: its figures and their 95 % intervals are what is told, and what
    `holdfast evaluate` finds.

    Example: holdfast plan --gas-per-month 50000000 --holdings 100 --out frontier.svg
    """
    from holdfast.control.planning.costs import MONTH, Prices  # noqa: PLC0415 - as in other commands
    from holdfast.control.planning.planner import PlanRequest  # noqa: PLC0415
    from holdfast.model.scenario import SCENARIOS  # noqa: PLC0415
    from holdfast.policy.registry import dial_names  # noqa: PLC0415
    from holdfast.sim.figure import check_can_draw  # noqa: PLC0415

    folder = home.expanduser()
    if out:
        check_can_draw(out)
    settings, found, running = _home(folder, named=policy is not None)
    fleet = _fleet(found, holdings, sectors)
    world = _world(running.world, scenario, blocks or (None if scenario else fleet.blocks))
    currency, budget = _budget(gas_per_month, money_per_month, units, normalised=normalised)
    unit = settings.rails.unit
    wish = PlanRequest(
        currency,
        budget,
        ceiling,
        latency=None if latency is None else _units(latency, unit),
        deadline=None if deadline is None else math.floor(_units(deadline, unit)),
        share=share,
    )
    prices = Prices(
        months=world.horizon * unit / MONTH,
        holdings=fleet.holdings,
        gas=fleet.gas_of_an_audit(batched=batched),
        money=_money(currency, gas_price, ether_price),
        audits_per_interval=settings.rails.audits_per_interval,
    )
    # A policy was trained for a known world, whichever it is tried in.
    base = SCENARIOS.get(world.name, settings.scenario)
    names = dial_names(policy or running.policy or settings.policy, base)
    if policy is None and len(names) == 1:  # who decides has no dial
        names = dial_names(settings.policy, base)
    answer = _answer(
        wish,
        prices,
        world,
        base,
        names,
        references=references,
        episodes=episodes,
        seed=seed,
        cluster=cluster,
    )
    if out:
        answer.draw(out)
    if as_json:
        terminal.print_json(answer.data())
        return
    answer.tell(unit)
    if running.champion:
        say(f"{running.champion} decides at present; to try this one in its shadow:")
        say(shlex.join(("holdfast", "policy", "add", answer.policy, "--challenger")))


@dataclass(frozen=True)
class Running:
    """What a home that is in operation knows: its world as it was fitted, and who decides."""

    world: "Scenario"
    champion: str | None = None
    policy: str | None = None  # the champion, by a name that simulations find it by


def _home(folder: Path, *, named: bool) -> tuple["ControlSettings", "Fleet | None", Running]:
    """Return the settings and the fleet of a home, the defaults where there is none."""
    from holdfast.control.planning.costs import fleet_in  # noqa: PLC0415 - as above
    from holdfast.control.settings.models import ControlSettings, read_control  # noqa: PLC0415
    from holdfast.owner import catalogue_in  # noqa: PLC0415
    from holdfast.owner.home import KEY  # noqa: PLC0415

    if not (folder / KEY).exists():
        return ControlSettings(), None, Running(ControlSettings().scenario)
    settings = read_control(folder)
    with catalogue_in(folder) as catalogue:
        return settings, fleet_in(catalogue), _running(folder, settings, named=named)


def _running(folder: Path, settings: "ControlSettings", *, named: bool) -> Running:
    """Return what is known of the operation; its policy, unless another one is named."""
    from holdfast.control.inference.fits import world_of_fleet  # noqa: PLC0415
    from holdfast.control.policies.aliases import read_aliases  # noqa: PLC0415 - as above
    from holdfast.control.policies.versions import Registry  # noqa: PLC0415
    from holdfast.storage.database import opened, transaction  # noqa: PLC0415

    address = settings.address(folder)
    if "://" not in address and not Path(address).exists():
        return Running(settings.scenario)  # it was never in operation
    with opened(address, read_only=True) as engine:
        with transaction(engine) as connection:
            champion = read_aliases(connection).champion
        world, registry = world_of_fleet(engine, settings.scenario), Registry(engine)
        if champion is None:
            return Running(world)
        known = {each.version: each.name for each in registry.listing()}
        policy = None if named else registry.named(champion, folder, settings.scenario)
        return Running(world, known.get(champion), policy)


def _fleet(found: "Fleet | None", holdings: int | None, sectors: int | None) -> "Fleet":
    from holdfast.control.planning.costs import Fleet  # noqa: PLC0415 - as above

    known = found or Fleet(Counter({DEFAULT_SECTORS: 1}))
    if holdings is None and sectors is None:
        return known
    each = Counter({sectors or known.usual_sectors: holdings or known.holdings})
    return Fleet(each, known.blocks)


def _world(known: "Scenario", scenario: str | None, blocks: int | None) -> "Scenario":
    from holdfast.sim.scenario_file import load_scenario  # noqa: PLC0415 - as above

    world = load_scenario(scenario) if scenario else known
    return replace(world, blocks=blocks) if blocks else world


def _budget(
    gas: float | None, money: float | None, units: float | None, *, normalised: bool
) -> tuple["Currency", float | None]:
    from holdfast.control.planning.costs import Currency  # noqa: PLC0415 - as above

    budgets = {Currency.GAS: gas, Currency.MONEY: money, Currency.UNITS: units}
    given = [(currency, budget) for currency, budget in budgets.items() if budget is not None]
    if len(given) > 1:
        raise InputError("one budget is enough: gas, money or units")
    return given[0] if given else (Currency.UNITS if normalised else Currency.GAS, None)


def _money(
    currency: "Currency", gas_price: float | None, ether_price: float | None
) -> float | None:
    """Return what a unit of gas costs in money, where that is known."""
    if gas_price is not None and ether_price is not None:
        return gas_price * GWEI * ether_price
    if currency == "money" or gas_price is not None or ether_price is not None:
        raise InputError("money needs two prices: --gas-price in gwei and --ether-price")
    return None


def _units(time: str, unit: int) -> float:
    from holdfast.durations import parse_duration  # noqa: PLC0415 - as above

    return parse_duration(time) / unit


def _answer(
    wish: "PlanRequest",
    prices: "Prices",
    world: "Scenario",
    base: "Scenario",
    names: "Sequence[str]",
    *,
    references: bool,
    episodes: int,
    seed: int,
    cluster: str | None,
) -> "Answer":
    from holdfast.cli.answer import Answer  # noqa: PLC0415 - as above
    from holdfast.control.planning import planner  # noqa: PLC0415
    from holdfast.sim.measures import WITHIN  # noqa: PLC0415
    from holdfast.sim.scenario_file import scenario_name  # noqa: PLC0415
    from holdfast.sim.trial import local_executor  # noqa: PLC0415

    others = (len(planner.RULES) + len(planner.BELIEF_AT)) * references
    total = (len(names) + planner.FRESH_TIMES + others) * episodes
    with (
        episode_bar(total) as on_progress,
        executor_for(cluster, lambda: local_executor(total)) as executor,
    ):
        trials = planner.Trials(
            world,
            episodes,
            seed,
            within=WITHIN if wish.deadline is None else tuple(sorted({*WITHIN, wish.deadline})),
            executor=executor,
            on_progress=on_progress,
        )
        fresh = trials.fresh()
        points = trials.points(names)
        chosen = planner.choose(points, wish.limits(prices), wish.aim(prices), fresh.point)
        beside = planner.references(points, trials) if references else []
    return Answer(wish, prices, scenario_name(world, base.name), fresh, chosen, points, beside)
