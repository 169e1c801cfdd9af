"""The experiments are those of the paper, and what several of them need is done once."""

from collections import Counter

import pytest

from holdfast.errors import InputError
from holdfast.model.scenario import PAPER
from holdfast.paper.experiments import AGENTS, EXPERIMENTS, RULES, Effort, Programme
from holdfast.paper.job import EVALUATION_SEED, Job
from holdfast.paper.published import MAIN

WHOLE = Programme(Effort())


def trainings(jobs: list[Job]) -> list[Job]:
    return [job for job in jobs if job.training]


def test_the_main_table_has_all_thirteen_methods_and_the_references_beside_them() -> None:
    policies = [row.policy for row in WHOLE.rows("table1-paper")]
    assert set(MAIN) == {*RULES, *AGENTS}
    assert set(MAIN) | {"drqn-cmdp-plus", "belief", "clairvoyant"} <= set(policies)
    assert sum(policy.startswith("constant:") for policy in policies) == 25
    assert "belief@paper" in [row.policy for row in WHOLE.rows("table1-drift")]


def test_no_two_jobs_have_one_name_and_no_job_has_two() -> None:
    jobs = [job for name in EXPERIMENTS for job in WHOLE.jobs([name])]
    by_id = {job.id: job.text for job in jobs}
    assert all(by_id[job.id] == job.text for job in jobs)
    assert len(set(by_id.values())) == len(by_id)


def test_a_training_that_several_experiments_need_is_one_job() -> None:
    seen = Counter(
        job.id for name in EXPERIMENTS for job in trainings(WHOLE.jobs([name])) if job.training
    )
    every = trainings(WHOLE.jobs(list(EXPERIMENTS)))
    assert len(every) == len(seen) < seen.total()
    plus = [run for job in every if (run := job.training) and run.method == "drqn-cmdp-plus"]
    assert sum(not run.alone for run in plus) == 10, "five seeds in both scenarios"


def test_a_job_stays_the_same_whichever_experiments_are_asked_for() -> None:
    alone = {job.id: job.digest for job in WHOLE.jobs(["shift"])}
    among = {job.id: job.digest for job in WHOLE.jobs(list(EXPERIMENTS))}
    assert alone.items() <= among.items()


def test_every_job_is_tried_on_the_same_episodes() -> None:
    jobs = WHOLE.jobs(list(EXPERIMENTS))
    assert {job.seed for job in jobs} == {EVALUATION_SEED}
    assert {job.episodes for job in jobs} == {2000}
    seeds = {job.training.seed for job in jobs if job.training}
    assert seeds == set(range(5))


def test_training_takes_as_long_as_in_the_paper() -> None:
    for name, units in {"table1-paper": 600, "decomposition": 500, "ablation": 500}.items():
        assert {job.training.units for job in WHOLE.jobs([name]) if job.training} == {units}


def test_different_jobs_have_different_texts() -> None:
    jobs = WHOLE.jobs(["frontier"])
    assert len({job.text for job in jobs}) == len(jobs)


def test_more_seeds_add_jobs_and_change_none() -> None:
    few = {job.id: job.digest for job in Programme(Effort(seeds=2)).jobs(["ablation"])}
    many = {job.id: job.digest for job in WHOLE.jobs(["ablation"])}
    assert few.items() < many.items()


def test_a_taste_shares_no_training_with_a_whole_run() -> None:
    taste = Programme(Effort(seeds=2, episodes=100, taste=True)).jobs(list(EXPERIMENTS))
    assert not {job.id for job in taste} & {job.id for job in WHOLE.jobs(list(EXPERIMENTS))}


def test_the_usual_prior_is_the_scenario_itself() -> None:
    (trained,) = {row.training for row in WHOLE.rows("shift") if row.policy == "drqn-cmdp"}
    assert trained is not None
    assert trained.scenario == PAPER


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(InputError, match="table1-paper"):
        WHOLE.rows("table2")
