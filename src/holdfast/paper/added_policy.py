"""A policy of the reader's beside those of a table, tried on the same episodes."""

from dataclasses import replace
from pathlib import Path

from holdfast.model.scenario import Scenario
from holdfast.paper.execute import carry_out
from holdfast.paper.experiments import PlannedRow
from holdfast.paper.job import Job, Trial
from holdfast.paper.result import Result, row_of


def add_policies(result: Result, policies: list[str], scenario: Scenario) -> Result:
    """Return the result with a row for each policy. Nothing is trained, and nothing is kept."""
    rows = list(result.rows)
    for name in policies:
        planned = PlannedRow(name, Trial(scenario, name))
        job = Job(None, (planned.trial,), result.episodes, result.evaluation_seed)
        done = carry_out(job, Path())
        rows.append(row_of(result.experiment, planned, [done], done.trials))
    return replace(result, rows=tuple(rows))
