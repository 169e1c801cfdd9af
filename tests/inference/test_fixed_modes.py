"""The filters that compute only what is reached give what the plain one gives."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.inference import FLEET
from benchmarks.mixed_log import mixed_log

from holdfast.inference import fixed_modes
from holdfast.inference.backward_sampling import sample_histories
from holdfast.inference.fixed_modes import FixedModeFilter, run_modes
from holdfast.inference.forward_filter import World, make_batches, run_filter
from holdfast.inference.growth_bands import table_of
from holdfast.inference.hypotheses import Hypotheses, Rates, State
from holdfast.inference.likelihood import log_likelihoods
from holdfast.inference.likelihood_bounds import bound_audits
from holdfast.inference.log import Log
from holdfast.model.arrays import IntArray
from holdfast.model.scenario import DRIFT, Scenario
from holdfast.policy.filter import BayesFilter
from holdfast.policy.hidden_states import modes_of

SPREAD = replace(FLEET, honest_spread=3.0, malicious_spread=2.0)
BOLD = replace(FLEET, quiet_after=20, quiet_factor=3.0)
WORLDS = [(FLEET, 1.0), (FLEET, 0.7), (SPREAD, 1.0), (BOLD, 1.0), (DRIFT, 1.0)]


def uncounted(log: Log) -> Log:
    """Return the log as if no damage had been counted after some of the failures."""
    unknown = np.arange(log.audits) % 3 == 0
    return replace(log, damaged=np.where(unknown, -1, log.damaged))


@pytest.mark.slow
@pytest.mark.parametrize(("world", "efficacy"), WORLDS)
def test_beliefs_and_likelihoods_are_those_of_the_plain_filter(
    world: Scenario, efficacy: float
) -> None:
    log = uncounted(mixed_log(FLEET, [500] * 12, 6))
    log = replace(log, elapsed=np.full(log.nodes, 9))
    (batch,) = make_batches(log)
    table, sized = table_of(world, 500), replace(world, blocks=500)
    plain = BayesFilter(sized, modes_of(sized), table.cells, efficacy)
    belief = run_filter(plain, log, batch)
    (ours,) = log_likelihoods([World(world, efficacy)], log, batch, table)
    assert ours == pytest.approx(belief.log_likelihood, abs=0.01)
    theirs_now = plain.count(plain.predict(belief, log.elapsed))
    (histories,) = sample_histories(
        [World(world, efficacy)], log, batch, table, 1, np.random.default_rng(0)
    )
    assert np.abs(histories.damage.cumsum(axis=1) - theirs_now.cumsum(axis=1)).max() < 1e-3


@pytest.mark.parametrize("world", [FLEET, SPREAD, BOLD])
@pytest.mark.parametrize("blur", [0.0, 0.5])
def test_what_is_dropped_does_not_matter(
    world: Scenario, blur: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = uncounted(mixed_log(FLEET, [800] * 10, 8))
    (batch,) = make_batches(log)
    likelihoods, computed = [], []
    for negligible in (fixed_modes.NEGLIGIBLE, np.inf):
        monkeypatch.setattr(fixed_modes, "NEGLIGIBLE", negligible)
        rows: list[int] = []

        def count(_mode: int, rows: list[int] = rows) -> fixed_modes.OnStep:
            return lambda which, _before, _after: rows.append(len(which))

        table = table_of(world, 800)
        bayes = FixedModeFilter(world, log, batch, table, blur)
        runs = run_modes(bayes, [World(world)], count)
        likelihoods.append(np.logaddexp.reduce([run.log_joint for run in runs], axis=0))
        computed.append(sum(rows))
    assert likelihoods[0] == pytest.approx(likelihoods[1], abs=1e-9)
    assert computed[0] < 0.8 * computed[1]


@pytest.mark.parametrize("blur", [0.0, 0.5])
@pytest.mark.parametrize("world", [FLEET, BOLD])
def test_no_audit_is_likelier_than_its_bound(world: Scenario, blur: float) -> None:
    log = uncounted(mixed_log(FLEET, [700] * 8, 8))
    (batch,) = make_batches(log)
    table = table_of(world, 700)
    rates, _ = Rates.of([(0.0003, 0.0003, 1.0), (0.003, 0.009, 0.8), (0.03, 0.09, 1.0)])
    bounds = bound_audits(table, rates, log, np.arange(log.audits), blur)
    hypotheses = Hypotheses.of(rates, len(batch.nodes))
    rows = iter(batch.steps)

    def compare(which: IntArray, before: State, after: State) -> None:
        audits = next(rows)[hypotheses.node[which]]
        gained = after.log_likelihood - before.log_likelihood
        assert (gained <= bounds[hypotheses.rates[which], audits] + 1e-6).all()

    FixedModeFilter(world, log, batch, table, blur).run(hypotheses, on_step=compare)
    assert next(rows, None) is None


def test_worlds_that_share_a_pass_do_not_touch_each_other() -> None:
    log = mixed_log(FLEET, [400] * 6, 5)
    (batch,) = make_batches(log)
    worlds = [World(replace(FLEET, malicious_rate=rate), 0.9) for rate in (0.01, 0.02, 0.03)]
    worlds.append(World(worlds[0].scenario, 0.5))
    together = log_likelihoods(worlds, log, batch, table_of(FLEET, 400))
    for world, row in zip(worlds, together, strict=True):
        (alone,) = log_likelihoods([world], log, batch, table_of(FLEET, 400))
        assert row == pytest.approx(alone, abs=1e-9)
