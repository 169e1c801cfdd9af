"""What we say of the shipped results, held against them."""

import pytest

from holdfast.paper.experiments import AGENTS, LATENCIES, LATENCY, PLUS, RHOS, RULES
from holdfast.paper.published import CEILING, MAIN
from holdfast.paper.result import SHIPPED, Result, Row, read_result
from holdfast.paper.table import is_constant

OBJECTIVES = ("gas", "miss_rate", "detected_within_14")


@pytest.fixture(scope="module")
def shipped() -> dict[str, Result]:
    return {path.stem: read_result(path) for path in SHIPPED.glob("*.json")}


def row_for(result: Result, policy: str, rho: float = CEILING, latency: float = LATENCY) -> Row:
    (row,) = (row for row in result.series(policy) if (row.rho, row.latency) == (rho, latency))
    assert row.reached
    return row


def ours(result: Result, rho: float = CEILING, latency: float = LATENCY) -> Row:
    return row_for(result, PLUS, rho, latency)


def each_seed(row: Row, measure: str) -> list[float]:
    figures = [figure for figure in row.measures[measure].by_seed if figure is not None]
    assert len(figures) == len(row.out_of_reach)
    return figures


def mean(row: Row, measure: str) -> float:
    figures = each_seed(row, measure)
    return sum(figures) / len(figures)


@pytest.mark.parametrize("world", ["paper", "drift"])
def test_every_method_stands_in_the_main_table_with_five_seeds(
    shipped: dict[str, Result], world: str
) -> None:
    result = shipped[f"table1-{world}"]
    assert not result.taste
    for name in RULES:
        assert result.series(name), name
        assert all(row.reached for row in result.series(name)), name
    for name in (*AGENTS, PLUS):
        (row, *_) = result.series(name)
        assert row.seeds >= 5


def test_ours_keeps_both_ceilings_on_every_seed_and_is_ahead_of_the_paper(
    shipped: dict[str, Result],
) -> None:
    row = ours(shipped["table1-paper"])
    assert max(each_seed(row, "miss_rate")) <= CEILING
    assert max(each_seed(row, "latency")) <= LATENCY
    assert mean(row, "gas") <= 6.6
    theirs = MAIN["drqn-cmdp"].figures()
    assert all(mean(row, name) < theirs[name] for name in ("gas", "latency", "miss_rate"))


def test_ours_needs_at_most_a_tenth_more_gas_than_the_planner(shipped: dict[str, Result]) -> None:
    planned = row_for(shipped["table1-paper"], "belief")
    assert mean(ours(shipped["table1-paper"]), "gas") <= 1.1 * planned.mean("gas")


def test_one_network_keeps_every_ceiling_and_gas_falls_as_they_rise(
    shipped: dict[str, Result],
) -> None:
    result = shipped["frontier"]
    by_rho = [ours(result, rho=rho) for rho in RHOS if rho >= 0.03]
    assert all(max(each_seed(row, "miss_rate")) <= (row.rho or 0) for row in by_rho)
    by_latency = [ours(result, latency=latency) for latency in LATENCIES]
    assert all(max(each_seed(row, "latency")) <= (row.latency or 0) for row in by_latency)
    assert all(max(each_seed(row, "miss_rate")) <= CEILING for row in by_latency)
    for rows in (by_rho, by_latency):
        gas = [mean(row, "gas") for row in rows]
        assert gas == sorted(gas, reverse=True)
        assert len(set(gas)) == len(gas)


def test_in_a_drifting_world_nothing_that_does_not_know_it_dominates_ours(
    shipped: dict[str, Result],
) -> None:
    result = shipped["table1-drift"]
    rivals = [
        row
        for row in result.rows
        if row.reached and (row.policy in (*RULES, "belief@paper") or is_constant(row))
    ]
    assert len(rivals) > 25
    for row in result.series(PLUS):
        gas, misses, detections = (mean(row, name) for name in OBJECTIVES)
        for rival in rivals:
            theirs = [rival.mean(name) for name in OBJECTIVES]
            assert theirs[0] > gas or theirs[1] > misses or theirs[2] < detections, rival.policy
