"""`holdfast plan`: from a budget to a ceiling on misses, from a ceiling or deadline to a cost."""

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from holdfast.cli.evaluate import episode_bar
from holdfast.cli.executor import Cluster, executor_for
from holdfast.cli.home import DEFAULT_HOME, HomeFolder
from holdfast.cli.plan_report import PlanReport
from holdfast.cli.terminal import Json, report
from holdfast.control.inference.fits import world_of_fleet
from holdfast.control.planning import planner
from holdfast.control.planning.check_costs import CheckForecast, forecast_checks
from holdfast.control.planning.costs import MONTH, Currency, Fleet, Prices, fleet_in
from holdfast.control.planning.planner import PlanRequest
from holdfast.control.policies.aliases import read_aliases
from holdfast.control.policies.versions import Registry
from holdfast.control.service import milliseconds
from holdfast.control.settings.models import ControlSettings, read_control
from holdfast.durations import parse_duration
from holdfast.errors import InputError
from holdfast.model.scenario import SCENARIOS, Scenario
from holdfast.owner import catalogue_in
from holdfast.owner.home import KEY
from holdfast.pdp.field import DEFAULT_SECTORS
from holdfast.policy.registry import dial_names
from holdfast.sim.figure import check_can_draw
from holdfast.sim.measures import WITHIN
from holdfast.sim.scenario_file import load_scenario, scenario_name
from holdfast.sim.trial import local_executor
from holdfast.storage.database import Standing, open_engine, standing_of, transaction
from holdfast.words import money

GWEI = 1e-9  # of an ether


def plan(
    *,
    gas_per_month: Annotated[
        float | None,
        typer.Option(min=0, help="A budget: gas per month on the ledger, for all holdings."),
    ] = None,
    money_per_month: Annotated[
        float | None, typer.Option(min=0, help="A budget: money per month, at the prices below.")
    ] = None,
    units: Annotated[
        float | None, typer.Option(min=0, help="A budget: normalised gas per month and holding.")
    ] = None,
    ceiling: Annotated[
        float | None, typer.Option(min=0, max=1, help="The miss rate to stay below.")
    ] = None,
    deadline: Annotated[
        str | None,
        typer.Option(metavar="TIME", help='The time to detect damage in, such as "7 days".'),
    ] = None,
    share: Annotated[
        float, typer.Option(min=0, max=1, help="The share of damage to detect by the deadline.")
    ] = 0.95,
    latency: Annotated[
        str | None, typer.Option(metavar="TIME", help="The mean latency to stay below as well.")
    ] = None,
    normalised: Annotated[
        bool,
        typer.Option("--normalised", help="Without a budget, plan in normalised gas."),
    ] = False,
    gas_price: Annotated[
        float | None, typer.Option(min=0, help="Price of a unit of gas, in gwei.")
    ] = None,
    ether_price: Annotated[float | None, typer.Option(min=0, help="Price of an ether.")] = None,
    batched: Annotated[
        bool, typer.Option("--batched", help="Assume full batches on the ledger.")
    ] = False,
    holdings: Annotated[
        int | None, typer.Option(min=1, help="Number of holdings. Default: the home's, or 1.")
    ] = None,
    blocks: Annotated[
        int | None,
        typer.Option(min=1, help="Blocks per holding. Default: the home's, or the scenario's."),
    ] = None,
    sectors: Annotated[
        int | None,
        typer.Option(help=f"Sectors per block. Default: the home's, or {DEFAULT_SECTORS}."),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE.toml", help="The world to plan in. Default: the home's."),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|DIR", help="The policy to set the dial of. Default: the champion."
        ),
    ] = None,
    verify_within: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help='Show what it costs to check all storage within "30 days".'
        ),
    ] = None,
    references: Annotated[
        bool, typer.Option(help="Compare it with rules and with the planner `belief`.")
    ] = True,
    episodes: Annotated[
        int,
        typer.Option(min=10, help="Episodes per setting. The plan itself gets four times as many."),
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds give equal plans.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.svg|.png", help="Draw the frontier as well.")
    ] = None,
    home: HomeFolder = DEFAULT_HOME,
    cluster: Cluster = None,
    as_json: Json = False,
) -> None:
    """Turn a budget into a ceiling, or a ceiling or deadline into a cost.

    The ceiling is on the miss rate. Every setting of the policy's dial is simulated. The best one
    that meets your limits is simulated again on new episodes. The plan shows these figures, with
    95 % intervals; `holdfast evaluate` confirms them.

    Storage that a tool checks costs no gas: without a budget, ceiling or deadline the plan shows
    what its checks read in a month, in its own unit, in bytes and at [control.prices] in money.

    Example: holdfast plan --gas-per-month 50000000 --holdings 100 --out frontier.svg
    """
    folder = home.expanduser()
    if out:
        check_can_draw(out)
    settings, known, running = _home(folder, named=policy is not None)
    checks = _forecasts(folder, settings, verify_within)
    wanted = (gas_per_month, money_per_month, units, ceiling, deadline)
    if checks and all(limit is None for limit in wanted):
        report({"checks": _facts(checks)}, _describe_checks(checks), as_json=as_json)
        return
    if checks and known is None and holdings is None and money_per_month is not None:
        report(*_compare_budget(checks, money_per_month), as_json=as_json)
        return
    fleet = _fleet(known, holdings, sectors)
    world = _world(running.world, scenario, blocks or (None if scenario else fleet.blocks))
    currency, budget = _budget(gas_per_month, money_per_month, units, normalised=normalised)
    unit = settings.rails.unit
    request = PlanRequest(
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
    # A policy was trained for a known world, whichever world it runs in.
    base = SCENARIOS.get(world.name, settings.scenario)
    names = dial_names(policy or running.policy or settings.policy, base)
    if policy is None and len(names) == 1:  # the champion has no dial
        names = dial_names(settings.policy, base)
    made = _plan(
        request,
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
        made.draw(out)
    described = [*_describe(made, unit, running), *_describe_checks(checks)]
    report(made.data() | {"checks": _facts(checks)}, described, as_json=as_json)


@dataclass(frozen=True)
class Operation:
    """A home's world as it was fitted, and its champion."""

    world: Scenario
    champion: str | None = None
    policy: str | None = None  # the champion, by its name in simulations


def _describe(made: PlanReport, unit: int, running: Operation) -> Iterator[str | Table]:
    yield from made.describe(unit)
    if running.champion:
        yield f"{running.champion} is the champion; to run this one in shadow:"
        yield shlex.join(("holdfast", "policy", "add", made.policy, "--challenger"))


def _forecasts(
    folder: Path, settings: ControlSettings, verify_within: str | None
) -> list[CheckForecast]:
    """Return what checks by tools cost in a month; all of them, within a time if one is given."""
    within = None if verify_within is None else parse_duration(verify_within)
    checks: list[CheckForecast] = []
    if (folder / KEY).exists() and standing_of(settings.address(folder))[0] is Standing.CURRENT:
        with (
            open_engine(settings.address(folder), read_only=True) as engine,
            transaction(engine) as connection,
        ):
            checks = forecast_checks(connection, settings, milliseconds(), within)
    if within is not None and not checks:
        raise InputError("--verify-within is for storage that a tool checks, and there is none")
    return checks


def _facts(checks: Sequence[CheckForecast]) -> list[dict[str, Any]]:
    return [asdict(forecast) for forecast in checks]


def _describe_checks(checks: Sequence[CheckForecast]) -> Iterator[str]:
    for forecast in checks:
        yield from forecast.describe()


def _compare_budget(
    checks: Sequence[CheckForecast], budget: float
) -> tuple[dict[str, Any], list[str]]:
    """Compare a budget with what checks cost, where there is nothing on nodes and no gas."""
    costs = [forecast.as_decided.money for forecast in checks]
    total = sum(cost for cost in costs if cost is not None)
    if None in costs:
        raise InputError("say what reading costs: egress_gb or request in [control.prices]")
    side = "within" if total <= budget else "ABOVE"
    verdict = f"a month of checks costs {money(total)}: {side} the budget of {money(budget)}"
    data = {"checks": _facts(checks), "money_per_month": total, "fits": total <= budget}
    return data, [*_describe_checks(checks), verdict]


def _home(folder: Path, *, named: bool) -> tuple[ControlSettings, Fleet | None, Operation]:
    """Return the settings and the fleet of a home, or the defaults without a home."""
    if not (folder / KEY).exists():
        return ControlSettings(), None, Operation(ControlSettings().scenario)
    settings = read_control(folder)
    with catalogue_in(folder) as catalogue:
        return settings, fleet_in(catalogue), _running(folder, settings, named=named)


def _running(folder: Path, settings: ControlSettings, *, named: bool) -> Operation:
    """Return the world and the champion; its policy only if no other one is named."""
    address = settings.address(folder)
    if standing_of(address)[0] is not Standing.CURRENT:
        return Operation(settings.scenario)  # the service has never run
    with open_engine(address, read_only=True) as engine:
        with transaction(engine) as connection:
            champion = read_aliases(connection).champion
        world, registry = world_of_fleet(engine, settings.scenario), Registry(engine)
        if champion is None:
            return Operation(world)
        names = {version.version: version.name for version in registry.listing()}
        policy = None if named else registry.named(champion, folder, settings.scenario)
        return Operation(world, names.get(champion), policy)


def _fleet(known: Fleet | None, holdings: int | None, sectors: int | None) -> Fleet:
    fleet = known or Fleet(Counter({DEFAULT_SECTORS: 1}))
    if holdings is None and sectors is None:
        return fleet
    counts = Counter({sectors or fleet.usual_sectors: holdings or fleet.holdings})
    return Fleet(counts, fleet.blocks)


def _world(known: Scenario, scenario: str | None, blocks: int | None) -> Scenario:
    world = load_scenario(scenario) if scenario else known
    return replace(world, blocks=blocks) if blocks else world


def _budget(
    gas: float | None, money: float | None, units: float | None, *, normalised: bool
) -> tuple[Currency, float | None]:
    budgets = {Currency.GAS: gas, Currency.MONEY: money, Currency.UNITS: units}
    given = [(currency, budget) for currency, budget in budgets.items() if budget is not None]
    if len(given) > 1:
        raise InputError("give one budget: gas, money or units")
    return given[0] if given else (Currency.UNITS if normalised else Currency.GAS, None)


def _money(currency: Currency, gas_price: float | None, ether_price: float | None) -> float | None:
    """Return the price of a unit of gas in money, if both prices are given."""
    if gas_price is not None and ether_price is not None:
        return gas_price * GWEI * ether_price
    if currency == "money" or gas_price is not None or ether_price is not None:
        raise InputError("money needs two prices: --gas-price in gwei and --ether-price")
    return None


def _units(time: str, unit: int) -> float:
    return parse_duration(time) / unit


def _plan(
    request: PlanRequest,
    prices: Prices,
    world: Scenario,
    base: Scenario,
    names: Sequence[str],
    *,
    references: bool,
    episodes: int,
    seed: int,
    cluster: str | None,
) -> PlanReport:
    others = (len(planner.RULES) + len(planner.BELIEF_AT)) * references
    total = (len(names) + planner.FRESH_TIMES + others) * episodes
    within = WITHIN if request.deadline is None else tuple(sorted({*WITHIN, request.deadline}))
    with (
        episode_bar(total) as on_progress,
        executor_for(cluster, lambda: local_executor(total)) as executor,
    ):
        trials = planner.Trials(
            world,
            episodes,
            seed,
            within=within,
            executor=executor,
            on_progress=on_progress,
        )
        fresh = trials.fresh()
        points = trials.points(names)
        plan = planner.choose(points, request.limits(prices), request.aim(prices), fresh.point)
        beside = planner.references(points, trials) if references else []
    return PlanReport(request, prices, scenario_name(world, base.name), fresh, plan, points, beside)
