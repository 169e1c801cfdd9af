"""The experiments of the paper: the policies in their rows, and the jobs these need.

A training run that several experiments need is one job with the trials of all of them. So a job is
the same whichever experiments you ask for, and runs once.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.scenario import DRIFT, PAPER, Scenario
from holdfast.paper.job import EPISODES, Job, Training, Trial
from holdfast.paper.published import CEILING
from holdfast.policy.lagrangian import Ceilings

RULES = ("fixed-high", "fixed-low", "heuristic", "bayesian", "oracle")
AGENTS = ("dqn", "double-dqn", "dueling-dqn", "d3qn", "ppo", "a2c", "ppo-lagrangian", "drqn-cmdp")
# What readers of safe reinforcement learning expect beside the paper's, trained by its recipe.
CONSTRAINED = ("recurrent-ppo-lagrangian", "pid-lagrangian", "focops", "r2d2")
PLUS = "drqn-cmdp-plus"

LATENCY = 9.1  # what the paper's DRQN-CMDP has: the ceiling that ours is held to
PRIORS = (0.1, 0.3, 0.5)
RHOS = (0.01, 0.03, 0.05, 0.08, 0.10, 0.15)
LATENCIES = (6.0, 9.0, 12.0)
CEILINGS = Ceilings(CEILING, LATENCY)
FRONTIER = (
    *(Ceilings(rho, LATENCY) for rho in RHOS),
    *(Ceilings(CEILING, latency) for latency in LATENCIES),
)

# In `drift` five per cent cost more than twice the gas, so ten per cent is tried as well.
DRIFTING = (CEILINGS, Ceilings(0.1, LATENCY))

LONG, SHORT = 600, 500  # units of training
LONGER = 900  # rounds of drqn-cmdp-plus in `drift`, where there is more to learn


@dataclass(frozen=True)
class Effort:
    """How much to train and to evaluate."""

    seeds: int = 5
    episodes: int = EPISODES
    taste: bool = False  # hardly trained: the figures mean nothing

    def units(self, method: str, usual: int) -> int:
        if self.taste:
            return 4 if method == PLUS else 20
        return usual


@dataclass(frozen=True)
class PlannedRow:
    """A row of a table before it has figures: a policy, its training and its trial."""

    policy: str
    trial: Trial
    training: Training | None = None  # for every seed; None for what needs no training
    variant: str = ""
    rho: float | None = None  # the ceilings it is made for
    latency: float | None = None


def table1(scenario: Scenario, effort: Effort) -> list[PlannedRow]:
    """Return the main comparison, with references and all constant actions."""
    methods = (*AGENTS, *CONSTRAINED) if scenario is PAPER else AGENTS
    agents = [_agent(method, scenario, effort) for method in methods]
    ceilings = (CEILINGS,) if scenario is PAPER else DRIFTING
    plus = [_plus(scenario, scenario, pair, effort) for pair in ceilings]
    planned = [*(_belief(scenario, pair) for pair in ceilings), _clairvoyant(scenario)]
    if scenario is not PAPER:
        planned += [_belief(scenario, pair, planned_for=PAPER) for pair in ceilings]
    constants = [
        _rule(f"constant:{action.interval},{action.ratio:.2f}", scenario)
        for action in map(GRID.action, range(GRID.size))
    ]
    return [*(_rule(name, scenario) for name in RULES), *agents, *plus, *planned, *constants]


def decomposition(effort: Effort) -> list[PlannedRow]:
    """Return recurrence and adaptive lambda, with and without each other."""
    return [
        _short(policy, method, variant, effort, **change)
        for policy, method in (("d3qn", "d3qn"), ("drqn", "drqn-cmdp"))
        for variant, change in (("fixed λ = 50", {"price": 50.0}), ("adaptive λ", {"rho": CEILING}))
    ]


def ablation(effort: Effort) -> list[PlannedRow]:
    """Return DRQN-CMDP complete, and without each of its parts."""
    adaptive = {"rho": CEILING}

    def masked(signal: str) -> PlannedRow:
        variant = f"no {signal.replace('_', ' ')}"
        return _short("drqn-cmdp", "drqn-cmdp", variant, effort, masked=(signal,), **adaptive)

    return [
        _short("drqn-cmdp", "drqn-cmdp", "full", effort, **adaptive),
        _short("drqn-cmdp", "drqn-cmdp", "λ = 0", effort, price=0.0),
        masked("reputation"),
        masked("consecutive_failures"),
        _short("d3qn", "d3qn", "no recurrence", effort, **adaptive),
        _short("d3qn", "d3qn", "8 frames for recurrence", effort, frames=8, **adaptive),
    ]


def sensitivity(effort: Effort) -> list[PlannedRow]:
    """Return policies trained or planned for each prior, and rules."""
    rows = []
    for prior in PRIORS:
        world = with_prior(prior)
        rows += [
            _rule("fixed-high", world),
            _rule("fixed-low", world),
            _agent("drqn-cmdp", world, effort),
            _plus(PAPER, world, CEILINGS, effort),
            _belief(world, CEILINGS),
        ]
    return rows


def shift(effort: Effort) -> list[PlannedRow]:
    """Return policies trained for one prior, evaluated at all three."""
    trained = _agent("drqn-cmdp", PAPER, effort)
    moved = [replace(trained, trial=Trial(with_prior(prior))) for prior in PRIORS]
    return [*moved, *(_plus(PAPER, with_prior(prior), CEILINGS, effort) for prior in PRIORS)]


def frontier(effort: Effort) -> list[PlannedRow]:
    """Return one training for each ceiling, one network for all, and the planner."""
    return [
        *(_agent("drqn-cmdp", PAPER, effort, rho) for rho in RHOS),
        *(_plus(PAPER, PAPER, ceilings, effort) for ceilings in FRONTIER),
        _plus_alone(CEILINGS, effort),
        *(_belief(PAPER, ceilings) for ceilings in FRONTIER),
    ]


EXPERIMENTS: dict[str, Callable[[Effort], list[PlannedRow]]] = {
    "table1-paper": lambda effort: table1(PAPER, effort),
    "table1-drift": lambda effort: table1(DRIFT, effort),
    "decomposition": decomposition,
    "ablation": ablation,
    "sensitivity": sensitivity,
    "shift": shift,
    "frontier": frontier,
}


def with_prior(prior: float) -> Scenario:
    """Return the scenario `paper` with another share of malicious nodes."""
    if prior == PAPER.malicious_share:
        return PAPER
    return replace(PAPER, name=f"paper-prior-{prior:g}", malicious_share=prior)


@dataclass(frozen=True)
class Programme:
    """All experiments at one effort, as rows and as jobs."""

    effort: Effort

    def rows(self, experiment: str) -> list[PlannedRow]:
        if experiment not in EXPERIMENTS:
            known = ", ".join(EXPERIMENTS)
            raise InputError(f"there is no experiment {experiment!r}: the known ones are {known}")
        return EXPERIMENTS[experiment](self.effort)

    def jobs(self, experiments: list[str]) -> list[Job]:
        """Return each job once, in the order of the rows."""
        jobs_by_id = {
            job.id: job
            for experiment in experiments
            for row in self.rows(experiment)
            for job in self.jobs_of(row)
        }
        return list(jobs_by_id.values())

    def jobs_of(self, row: PlannedRow) -> list[Job]:
        """Return a job for each seed, or one for what needs no training."""
        if row.training is None:
            return [Job(None, (row.trial,), self.effort.episodes)]
        trials = self._trials[row.training]
        seeds = range(self.effort.seeds)
        trainings = [replace(row.training, seed=seed) for seed in seeds]
        return [Job(training, trials, self.effort.episodes) for training in trainings]

    @cached_property
    def _trials(self) -> dict[Training, tuple[Trial, ...]]:
        """Return all trials of any experiment, by training."""
        trials_by_training: dict[Training, dict[Trial, None]] = {}
        for experiment in EXPERIMENTS:
            for row in self.rows(experiment):
                if row.training:
                    trials_by_training.setdefault(row.training, {})[row.trial] = None
        return {training: tuple(trials) for training, trials in trials_by_training.items()}


def _rule(name: str, scenario: Scenario) -> PlannedRow:
    return PlannedRow(name, Trial(scenario, name))


def _agent(method: str, scenario: Scenario, effort: Effort, rho: float = CEILING) -> PlannedRow:
    training = Training(method, scenario, effort.units(method, LONG))
    if method != "drqn-cmdp":
        return PlannedRow(method, Trial(scenario), training)
    return PlannedRow(method, Trial(scenario), replace(training, rho=rho), rho=rho)


def _short(policy: str, method: str, variant: str, effort: Effort, **changes: object) -> PlannedRow:
    training = Training(method, PAPER, effort.units(method, SHORT))
    return PlannedRow(policy, Trial(PAPER), replace(training, **changes), variant)  # type: ignore[arg-type]


def _plus(home: Scenario, world: Scenario, ceilings: Ceilings, effort: Effort) -> PlannedRow:
    training = Training(
        method=PLUS,
        scenario=home,
        units=effort.units(PLUS, LONG if home is PAPER else LONGER),
        targets=FRONTIER if home is PAPER else DRIFTING,
        validation=100 if effort.taste else None,
    )
    trial = Trial(world, ceilings=ceilings)
    return PlannedRow(PLUS, trial, training, rho=ceilings.miss_rate, latency=ceilings.latency)


def _plus_alone(ceilings: Ceilings, effort: Effort) -> PlannedRow:
    """Return a network trained for these ceilings alone, to show what serving all costs."""
    row = _plus(PAPER, PAPER, ceilings, effort)
    training = replace(row.training, targets=(ceilings,), alone=True) if row.training else None
    return replace(row, training=training, variant="alone")


def _belief(
    scenario: Scenario, ceilings: Ceilings, planned_for: Scenario | None = None
) -> PlannedRow:
    name = f"belief:rho={ceilings.miss_rate:g},latency={ceilings.latency:g}"
    return PlannedRow(
        f"belief@{planned_for.name}" if planned_for else "belief",
        Trial(scenario, name, planned_for),
        rho=ceilings.miss_rate,
        latency=ceilings.latency,
    )


def _clairvoyant(scenario: Scenario) -> PlannedRow:
    return PlannedRow("clairvoyant", Trial(scenario, f"clairvoyant:rho={CEILING:g}"), rho=CEILING)
