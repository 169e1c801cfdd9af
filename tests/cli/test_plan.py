"""`holdfast plan` turns a budget into a ceiling and back, and evaluation finds what it says."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.support.command_line import Workplace
from tests.support.fits import fitted

from holdfast.control.inference.fits import save_fit
from holdfast.control.policies.aliases import Aliases, Author, promote
from holdfast.control.policies.versions import Registry
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.settings.models import read_control
from holdfast.model.scenario import PAPER
from holdfast.owner import Home
from holdfast.pdp.sealing import ScryptCost
from holdfast.policy.checkpoint import load, save
from holdfast.policy.shipped import shipped_folder
from holdfast.storage.database import connect, migrate

WORLD = ("--scenario", "paper:horizon=120", "--no-references", "--episodes", "100")


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the shipped policy for `paper` with every eighth of its dials."""
    folder = tmp_path_factory.mktemp("plans") / "policy"
    whole = load(shipped_folder("drqn-cmdp-plus", "paper"))
    few = replace(whole.manifest, dials=whole.manifest.dials[::8])
    save(folder, few, whole.parameters)
    return folder


@pytest.fixture
def desk(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.setenv("HOLDFAST_HOME", str(workplace.directory / "home"))
    return workplace


def planned(desk: Workplace, policy: Path, *arguments: str) -> dict[str, Any]:
    finished = desk.run("plan", "--json", "--policy", policy, *WORLD, *arguments)
    assert (finished.code, finished.stderr) == (0, ""), finished
    data: dict[str, Any] = finished.data
    return data


def evaluated(desk: Workplace, plan: dict[str, Any], seed: int) -> dict[str, Any]:
    finished = desk.run(*plan["evaluate"].split()[1:], "--json", "--seed", str(seed))
    assert finished.code == 0, finished
    data: dict[str, Any] = finished.data
    return data


EARLY = Rails().audits_per_interval  # what operation adds to a simulation


def in_operation(desk: Workplace) -> tuple[Path, Engine]:
    """Return a home for `paper`, and the database of its control plane."""
    home = desk.directory / "home"
    Home.create(home, b"a passphrase", ScryptCost(n=16))
    (home / "holdfast.toml").write_text('[control]\nscenario = "paper"\n')
    engine = connect(read_control(home).address(home))
    migrate(engine)
    return home, engine


def agree(one: dict[str, float], other: dict[str, float]) -> bool:
    """Tell whether two independent intervals overlap; of true ones, one pair in 180 does not."""
    slack = 1 + 1e-12  # of products that are rounded in another order
    return one["low"] <= slack * other["high"] and other["low"] <= slack * one["high"]


@pytest.mark.slow
def test_a_budget_and_its_inverse_agree_with_what_evaluation_finds(
    desk: Workplace, policy: Path
) -> None:
    fleet = ("--holdings", "10", "--batched")
    there = planned(desk, policy, "--gas-per-month", "4000000", *fleet)
    back = planned(desk, policy, "--ceiling", str(there["ceiling"]), *fleet)
    assert there["cost_per_month"]["gas"]["high"] <= 4_000_000
    assert back["measures"]["miss_rate"]["high"] <= there["ceiling"] < 0.2
    assert back["cost_per_month"]["gas"]["high"] <= 4_000_000
    for plan, seed in ((there, 71), (back, 72)):
        found = evaluated(desk, plan, seed)
        assert found["episodes"] == 400
        for name in ("miss_rate", "latency", "gas", "audits"):
            assert agree(found[name], plan["measures"][name]), name
        months = 120 / (365 / 12)
        gas = {
            end: 10 * plan["gas_per_audit"] * found["audits"][end] * EARLY / months
            for end in ("low", "high")
        }
        assert agree(gas, plan["cost_per_month"]["gas"])


@pytest.mark.slow
def test_a_deadline_has_its_price(desk: Workplace, policy: Path) -> None:
    loose, tight = (
        planned(desk, policy, "--deadline", time, "--share", "0.7", "--normalised")
        for time in ("14 days", "10 days")
    )
    assert loose["measures"]["detected_within"]["14"]["low"] >= 0.7
    assert tight["measures"]["detected_within"]["10"]["low"] >= 0.7
    assert tight["cost_per_month"]["units"]["value"] > loose["cost_per_month"]["units"]["value"]


@pytest.mark.slow
def test_money_buys_what_its_gas_buys(desk: Workplace, policy: Path) -> None:
    prices = ("--gas-price", "2", "--ether-price", "2500")
    by_money = planned(desk, policy, "--money-per-month", "4", *prices)
    by_gas = planned(desk, policy, "--gas-per-month", str(4 / (2e-9 * 2500)))
    assert by_money["policy"] == by_gas["policy"]
    cost = by_money["cost_per_month"]
    assert cost["money"]["value"] == pytest.approx(cost["gas"]["value"] * 2e-9 * 2500)


@pytest.mark.slow
def test_the_plan_is_printed_and_drawn(desk: Workplace, policy: Path) -> None:
    wanted = ("plan", "--policy", policy, *WORLD[:3], "--episodes", "20", "--units", "0.5")
    pictures = [desk.directory / "one.svg", desk.directory / "two.svg"]
    told = [desk.run(*wanted, "--out", picture) for picture in pictures]
    assert [each.code for each in told] == [0, 0]
    assert pictures[0].read_bytes() == pictures[1].read_bytes()
    text = told[0].stdout
    assert text == told[1].stdout
    for words in (f"{policy}:dial=", "95 % interval", "per month: gas"):
        assert words in text
    assert f"confirm it: holdfast evaluate --policy {policy}:dial=" in text


@pytest.mark.slow
def test_references_that_do_better_are_named(
    desk: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.control.planning.planner.RULES", ("constant:14,0.20", "daily-5"))
    monkeypatch.setattr("holdfast.control.planning.planner.BELIEF_AT", (0.5,))
    world = ("--scenario", "paper:horizon=60", "--episodes", "50")
    wanted = ("plan", "--policy", "fixed-high", *world, "--ceiling", "0.9")
    told = desk.run(*wanted, "--out", "plan.png")
    assert told.code == 0
    assert "constant:14,0.20 costs less, " in told.stdout
    assert (desk.directory / "plan.png").read_bytes().startswith(b"\x89PNG")
    data = desk.run(*wanted, "--json").data
    belief, *rules = (each["policy"] for each in data["references"])
    assert belief.startswith("belief:rho=")
    assert rules == ["constant:14,0.20", "daily-5"]
    assert data["better"] == ["constant:14,0.20"]


@pytest.mark.slow
def test_the_home_says_what_the_options_leave_open(desk: Workplace, policy: Path) -> None:
    home = desk.directory / "home"
    Home.create(home, b"a passphrase", ScryptCost(n=16))
    (home / "holdfast.toml").write_text(
        f'[control] # mine\npolicy = "{policy}"\nscenario = "paper"\n'
        '[control.rails]\nunit = "1 hour"\n'
    )
    wanted = ("plan", "--ceiling", "0.2", "--no-references", "--episodes", "20")
    told = desk.run(*wanted, "--json")
    assert told.code == 0, told
    assert told.data["scenario"] == "paper"
    assert told.data["policy"].startswith(f"{policy}:dial=")
    months = 24 * 365 / 12 / 365  # a unit is an hour, so that a month has as many episodes
    units = told.data["measures"]["gas"]["value"] * EARLY * months
    assert told.data["cost_per_month"]["units"]["value"] == pytest.approx(units)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "say what to plan for"),
        (("--units", "1", "--gas-per-month", "1"), "give one budget"),
        (("--money-per-month", "1"), "money needs two prices"),
        (("--ceiling", "0.5", "--gas-price", "1"), "money needs two prices"),
        (("--deadline", "soon"), 'must be a time such as "90 seconds"'),
        (("--ceiling", "0.5", "--sectors", "5"), "no contract for 5 sectors"),
        (("--ceiling", "0.5", "--out", "plan.pdf"), "must end in .svg or .png"),
        (("--ceiling", "0.5", "--scenario", "moon"), "there is no scenario 'moon'"),
        (("--ceiling", "0.001", "--latency", "9 days"), "the lowest ceiling is 0."),
        (("--gas-per-month", "10"), "a month costs at least "),
        (("--deadline", "1 day"), "is surely found within 1 units"),
    ],
)
def test_what_cannot_be_planned_is_answered_in_a_sentence(
    desk: Workplace, policy: Path, arguments: tuple[str, ...], reason: str
) -> None:
    quick = (*WORLD[:3], "--episodes", "20")
    assert reason in desk.run("plan", "--policy", policy, *quick, *arguments).sentence()
    assert not (desk.directory / "home").exists()


@pytest.mark.slow
def test_a_home_in_operation_is_planned_for_in_the_world_fitted_to_it(
    desk: Workplace, policy: Path
) -> None:
    home, engine = in_operation(desk)
    save_fit(engine, fitted(0.11), 1)
    champion = Registry(engine).register("fixed-high", PAPER, 1)
    promote(engine, Aliases(), champion.version, Author("a test", 1))
    engine.dispose()
    wanted = ("plan", "--ceiling", "0.5", "--no-references", "--episodes", "20")
    told = desk.run(*wanted, "--policy", policy, "--json")
    assert told.code == 0, told
    assert "malicious_share=0.11" in told.data["scenario"]
    shown = desk.run(*wanted, "--policy", policy)
    assert "fixed-high is the champion" in shown.stdout
    assert not (home / "policies").exists()
    assert f"holdfast policy add {told.data['policy']} --challenger" in shown.stdout


@pytest.mark.slow
def test_the_dial_of_who_decides_is_set_even_if_only_the_registry_knows_it(
    desk: Workplace, policy: Path
) -> None:
    home, engine = in_operation(desk)
    champion = Registry(engine).register(f"{policy}:dial=1", PAPER, 1, known_as="retrained-1")
    promote(engine, Aliases(), champion.version, Author("a test", 1))
    wanted = ("plan", "--ceiling", "0.5", "--no-references", "--episodes", "20")
    assert desk.run(*wanted, "--policy", policy).code == 0
    assert not (home / "policies").exists(), "another one was named"
    told = desk.run(*wanted, "--json")
    assert told.code == 0, told
    chosen = told.data["policy"]
    assert chosen.startswith(f"{home}/policies/{champion.version[:12]}:dial=")
    assert len(told.data["settings"]) == len(load(policy).manifest.dials)
    assert "retrained-1 is the champion" in desk.run(*wanted).stdout
    assert desk.run("policy", "add", chosen, "--challenger").code == 0
    assert evaluated(desk, told.data, 3)["policies"]
