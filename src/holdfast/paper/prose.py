"""Where our results differ from the paper's, and why; every figure comes from the data."""

from collections.abc import Callable, Iterable, Sequence

from holdfast.paper.experiments import LATENCIES, LATENCY, PLUS, PRIORS, RHOS
from holdfast.paper.published import CEILING, DECOMPOSITION, HIGHEST_MULTIPLIER, MAIN
from holdfast.paper.result import MULTIPLIER, Result, Row
from holdfast.paper.table import is_constant

# How near an agent must come to a constant action in gas and latency, as a share, and in misses.
NEAR, NEAR_MISSES = 0.02, 0.005


def paragraphs(result: Result) -> list[str]:
    """Return what there is to say about a result; what can't be said of it is left out."""
    write = {
        "table1-paper": _table1_paper,
        "table1-drift": _table1_drift,
        "decomposition": _decomposition,
        "ablation": _ablation,
        "sensitivity": _sensitivity,
        "shift": _shift,
        "frontier": _frontier,
    }[result.experiment]
    return [" ".join(sentences) for sentences in write(result) if sentences]


def _table1_paper(result: Result) -> Iterable[list[str]]:
    yield _rules(result)
    yield _collapses(result)
    yield _recipe(result)
    yield _ours(result)
    yield _dilution(result)


def _rules(result: Result) -> list[str]:
    said = []
    names = ("fixed-high", "fixed-low", "heuristic", "oracle")
    rows = [row for row in (result.row(name) for name in names) if row]
    if rows:
        gas = max(abs(row.iqm("gas") / row.paper["gas"] - 1) for row in rows)
        misses = max(abs(row.iqm("miss_rate") - row.paper["miss_rate"]) for row in rows)
        said.append(
            f"The rules need no training: {_listed([row.policy for row in rows])} come within"
            f" {_percent(gas)} of the paper's gas and within {100 * misses:.1f} points of its miss"
            f" rates. The paper drew the types of its test nodes; here their share is exactly"
            f" {_percent(rows[0].malicious_share, 0)}."
        )
    if row := result.row("bayesian"):
        said.append(
            f"The rule bayesian spends {row.iqm('gas'):.1f} gas instead of {row.paper['gas']:.1f}:"
            " the paper gives neither its likelihoods nor its five actions nor its damping, so ours"
            " is another rule of that description."
        )
    return said


def _collapses(result: Result) -> list[str]:
    said = []
    for policy in ("a2c", "ppo", "ppo-lagrangian"):
        theirs = MAIN[policy].figures()
        if found := _nearest(result, theirs):
            action = found.policy.removeprefix("constant:").replace(",", ", ")
            said.append(
                f"The paper's row of {policy} ({_three(theirs)}) is that of the constant action"
                f" ({action}), which comes to {_three_of(found)} here."
            )
    if said:
        said.append("So in the paper these agents had collapsed to one action each.")
    collapsed = [
        (row, count) for row in result.rows if row.trained and (count := _constants(result, row))
    ]
    if collapsed:
        each = [f"{row.policy} on {count} of {row.seeds} seeds" for row, count in collapsed]
        said.append(f"Here the same happens to {_listed(each)}.")
    return said


def _nearest(result: Result, theirs: dict[str, float]) -> Row | None:
    """Return the constant action whose figures are those of the paper's row, up to rounding."""

    def distance(row: Row) -> float:
        return max(abs(row.iqm(name) / theirs[name] - 1) for name in ("gas", "latency"))

    constants = [row for row in result.rows if is_constant(row) and row.reached]
    found = min(constants, key=distance, default=None)
    return found if found and distance(found) < 2 * NEAR else None


def _constants(result: Result, row: Row) -> int:
    """Return on how many seeds a policy does what some constant action does."""
    columns = [row.measures[name].by_seed for name in ("gas", "latency", "miss_rate")]
    seeds = zip(*columns, strict=True)
    constants = [each for each in result.rows if is_constant(each) and each.reached]

    def alike(gas: float | None, latency: float | None, misses: float | None) -> bool:
        if gas is None or latency is None or misses is None:
            return False
        return any(
            abs(gas / each.iqm("gas") - 1) < NEAR
            and abs(latency / each.iqm("latency") - 1) < NEAR
            and abs(misses - each.iqm("miss_rate")) < NEAR_MISSES
            for each in constants
        )

    return sum(alike(*figures) for figures in seeds)


def _recipe(result: Result) -> list[str]:
    row = result.row("drqn-cmdp")
    if not row:
        return []
    multiplier = row.measures[MULTIPLIER]
    theirs = f", where the paper's single run had {_three(row.paper)}" if row.paper else ""
    return [
        (
            f"Trained by the paper's recipe, drqn-cmdp comes to {_three_of(row)}{theirs}. It keeps"
            f" the ceiling of {_percent(CEILING, 0)} on {_kept(row)} seeds, and λ ends between"
            f" {multiplier.min:.0f} and {multiplier.max:.0f}."
        ),
        (
            "The recipe works against its own aim. A detection earns more than an audit costs, and"
            " a repaired malicious node is soon corrupted again, so the return pays for finding the"
            " same node over and over. The discount counts decisions, not time, so that long"
            " intervals and short ones weigh alike. And sequences that begin from a zero state"
            " can't carry what an episode has shown of the node's type."
        ),
    ]


def _ours(result: Result) -> list[str]:
    said = [
        (
            f"{PLUS} is the same network with a sound objective: no payment for detections, a price"
            " on latency, elapsed time discounted, and a margin below the ceilings. Its measure is"
            " belief, a planner that knows the rules of the world and filters exactly."
        )
    ]
    for row in result.series(PLUS):
        rho = row.rho or CEILING
        asked = f"For {_percent(rho, 0)} misses and a latency of {row.latency:g}"
        if row.reached:
            said.append(
                f"{asked} it comes to {_three_of(row)}, and keeps both on {_kept(row)} seeds."
            )
        if lost := len(row.out_of_reach) - row.seeds:
            said.append(f"{asked} no dial was found on {lost} of {len(row.out_of_reach)} seeds.")
        said += [*_ahead(result, row), *_against_belief(result, row)]
    return said


def _ahead(result: Result, row: Row) -> list[str]:
    """Say on how many seeds all three figures of the paper's own method are beaten."""
    if result.experiment != "table1-paper" or not row.reached:
        return []
    theirs = MAIN["drqn-cmdp"].figures()

    def better(gas: float, latency: float, misses: float) -> bool:
        swift = gas < theirs["gas"] and latency < theirs["latency"]
        return swift and misses < theirs["miss_rate"]

    return [
        (
            "It is ahead of the paper's row of drqn-cmdp in gas, latency and misses at once on"
            f" {_count(row, better)} of {len(row.out_of_reach)} seeds."
        )
    ]


def _against_belief(result: Result, row: Row) -> list[str]:
    belief = result.row("belief", rho=row.rho, latency=row.latency)
    if not belief or not row.reached:
        return []
    more = row.iqm("gas") / belief.iqm("gas") - 1
    return [
        (
            f"For these ceilings belief needs {belief.iqm('gas'):.2f} gas; the network needs"
            f" {_percent(abs(more))} {'more' if more >= 0 else 'less'}."
        )
    ]


def _dilution(result: Result) -> list[str]:
    rows = [row for row in (result.row(name) for name in ("drqn-cmdp", PLUS, "belief")) if row]
    if not rows:
        return []
    each = [f"{row.policy} {_percent(row.iqm('miss_rate_honest'))}" for row in rows]
    return [
        (
            f"The pooled miss rate hides one thing: on honest nodes alone the misses are"
            f" {_listed(each)}. Sure detections on malicious nodes dilute them, and in operation no"
            " miss is ever seen."
        )
    ]


def _table1_drift(result: Result) -> Iterable[list[str]]:
    said = []
    for moved in result.series("belief@paper"):
        settled = result.row("belief", rho=moved.rho, latency=moved.latency)
        if settled and moved.reached:
            said.append(
                f"Planned for {_percent(moved.rho or CEILING, 0)} misses in the stationary world,"
                f" belief@paper comes to {_three_of(moved)} here; belief, which knows how this"
                f" world drifts, to {_three_of(settled)}."
            )
    constants = [row for row in result.rows if is_constant(row) and row.reached]
    inside = [row for row in constants if row.iqm("miss_rate") <= CEILING]
    if constants:
        said.append(
            f"Of {len(constants)} constant actions {len(inside) or 'none'}"
            f" {'keeps' if len(inside) == 1 else 'keep'} the ceiling of {_percent(CEILING, 0)}."
        )
    if inside:
        cheapest = min(inside, key=lambda row: row.iqm("gas"))
        action = cheapest.policy.removeprefix("constant:").replace(",", ", ")
        said.append(f"The cheapest of them is ({action}) with {_three_of(cheapest)}.")
    yield said
    yield _recipe(result)
    yield _ours(result)
    yield _dilution(result)


def _decomposition(result: Result) -> Iterable[list[str]]:
    rows = [row for row in result.rows if row.reached]
    cells = [
        f"{row.policy} with {row.variant}: {row.iqm('gas'):.1f} gas and"
        f" {_percent(row.iqm('miss_rate'))} misses (the paper: {row.paper['gas']:.1f} and"
        f" {_percent(row.paper['miss_rate'])})"
        for row in rows
    ]
    yield [f"{'; '.join(cells)}."]
    published = [cell.miss_rate for cell in DECOMPOSITION.values()]
    yield _noise(rows, max(published) - min(published), "The four cells of the paper")


def _ablation(result: Result) -> Iterable[list[str]]:
    full = result.row("drqn-cmdp", "full")
    rows = [row for row in result.rows if row.reached and row is not full]
    if not full:
        return
    changes = [
        f"{row.variant}: {_points(row.iqm('miss_rate') - full.iqm('miss_rate'))} and"
        f" {row.iqm('gas') - full.iqm('gas'):+.1f} gas"
        for row in rows
    ]
    yield [
        f"Whole, drqn-cmdp comes to {_three_of(full)}.",
        f"Against that, {'; '.join(changes)}.",
        "The variants without recurrence are d3qn with the same adaptive λ.",
    ]
    largest = max((abs(row.iqm("miss_rate") - full.iqm("miss_rate")) for row in rows), default=0.0)
    yield _noise([full, *rows], largest, "The variants and the whole")


def _noise(rows: Sequence[Row], effect: float, what: str) -> list[str]:
    """Say how a difference compares with what seeds alone make."""
    columns = [row.measures["miss_rate"].known for row in rows]
    spread = max((max(column) - min(column) for column in columns), default=0.0)
    verdict = (
        "so a single run of each can't tell a part's worth from chance"
        if spread >= effect
        else "which is less"
    )
    return [
        (
            f"{what} differ by up to {100 * effect:.1f} points of miss rate. The seeds of one and"
            f" the same variant differ by up to {100 * spread:.1f} points here, {verdict}."
        )
    ]


def _sensitivity(result: Result) -> Iterable[list[str]]:
    rows = [row for row in result.rows if row.policy == "drqn-cmdp" and row.reached]
    said = []
    if rows:
        gas, misses = ([row.iqm(name) for row in rows] for name in ("gas", "miss_rate"))
        said.append(
            f"Trained for each prior ({rows[0].seeds} seeds), drqn-cmdp spends {min(gas):.1f} to"
            f" {max(gas):.1f} gas and misses {_percent(min(misses))} to {_percent(max(misses))}."
        )
    if high := result.row("fixed-high", malicious_share=PRIORS[0]):
        said.append(
            f"fixed-high misses {_percent(high.iqm('miss_rate'))} at a prior of {PRIORS[0]:g}:"
            " most of its encounters there are with the small damage of honest nodes."
        )
    yield said
    yield [
        *_over_priors(result, PLUS, "without being trained again"),
        *_over_priors(result, "belief"),
    ]


def _over_priors(result: Result, policy: str, how: str = "planned for each prior") -> list[str]:
    rows = [row for row in result.rows if row.policy == policy and row.reached]
    if not rows:
        return []
    each = [f"{_percent(row.iqm('miss_rate'))} at {row.malicious_share:g}" for row in rows]
    how += f" ({rows[0].seeds} seeds)" if rows[0].trained else ""
    return [f"{policy}, {how}, misses {_listed(each)}."]


def _shift(result: Result) -> Iterable[list[str]]:
    for policy in ("drqn-cmdp", PLUS):
        home = result.row(policy, malicious_share=PRIORS[1])
        away = [result.row(policy, malicious_share=prior) for prior in (PRIORS[0], PRIORS[2])]
        moved = [
            f"{_points(row.iqm('miss_rate') - home.iqm('miss_rate'))} at {row.malicious_share:g}"
            for row in away
            if row and home
        ]
        if home and moved:
            yield [
                (
                    f"{policy} misses {_percent(home.iqm('miss_rate'))} at the prior it was trained"
                    f" for ({home.seeds} seeds). That changes by {_listed(moved)}."
                )
            ]
    yield [
        (
            "Part of that is no change of the policy's at all: with fewer malicious nodes there are"
            " fewer sure detections to dilute the misses on honest ones."
        )
    ]


def _frontier(result: Result) -> Iterable[list[str]]:
    paper = [row for row in result.rows if row.policy == "drqn-cmdp" and row.reached]
    if paper:
        misses = [row.iqm("miss_rate") for row in paper]
        prices = [row.iqm(MULTIPLIER) for row in paper]
        said = [
            (
                f"Over ceilings from {_percent(RHOS[0], 0)} to {_percent(RHOS[-1], 0)} the misses"
                f" of drqn-cmdp lie between {_percent(min(misses))} and {_percent(max(misses))}; it"
                f" keeps {_kept_ceilings(paper)}."
            ),
            f"Its λ ends between {min(prices):.0f} and {max(prices):.0f}.",
        ]
        if max(prices) > 0.99 * HIGHEST_MULTIPLIER:
            said.append("A λ at its bound steers nothing any more.")
        yield [*said, "Each ceiling takes a training of its own."]
    for policy, how in (
        (PLUS, "one network, turned by its dial,"),
        ("belief", "planned for each,"),
    ):
        rows = [row for row in result.series(policy) if row.latency == LATENCY]
        reached = [row for row in rows if row.reached]
        lost = [f"{_percent(row.rho or 0.0, 0)}" for row in rows if not row.reached]
        asked = f"the latency asked for is {LATENCY:g}"
        said = [f"{policy}, {how} keeps {_kept_ceilings(reached)}; {asked}."]
        if lost:
            said.append(f"Out of reach: {_listed(lost)}; it says so instead of breaking them.")
        yield [*said, *_latencies(result, policy)]
    yield _alone(result)


def _alone(result: Result) -> list[str]:
    """Say what serving every ceiling with one network costs at the usual one."""
    for row in result.rows:
        every = result.row(row.policy, rho=row.rho, latency=row.latency)
        if row.variant and row.reached and every:
            return [
                (
                    f"A network trained for {_percent(row.rho or CEILING, 0)} and a latency of"
                    f" {row.latency:g} alone comes to {_three_of(row)}; the one for all ceilings"
                    f" comes to {_three_of(every)}."
                )
            ]
    return []


def _latencies(result: Result, policy: str) -> list[str]:
    rows = [result.row(policy, rho=CEILING, latency=latency) for latency in LATENCIES]
    each = [
        f"{row.iqm('latency'):.1f} for {row.iqm('gas'):.1f} gas where {row.latency:g} is asked"
        for row in rows
        if row
    ]
    return [f"At {_percent(CEILING, 0)} its latency is {_listed(each)}."] if each else []


def _kept_ceilings(rows: Sequence[Row]) -> str:
    kept = [row for row in rows if max(row.measures["miss_rate"].known) <= (row.rho or 0.0)]
    asked = [_percent(row.rho or 0.0, 0) for row in kept]
    which = f"{len(kept)} of the {len(RHOS)} ceilings ({_listed(asked)})"
    what = which if kept else f"none of the {len(RHOS)} ceilings"
    return f"{what} on every seed" if any(row.trained for row in rows) else what


def _kept(row: Row) -> str:
    """Return on how many of its seeds a row keeps the ceilings it is made for."""
    most = float("inf") if row.latency is None else row.latency
    rho = row.rho or CEILING
    kept = _count(row, lambda _gas, latency, misses: misses <= rho and latency <= most)
    return f"{kept} of {len(row.out_of_reach)}"


def _count(row: Row, test: Callable[[float, float, float], bool]) -> int:
    columns = [row.measures[name].by_seed for name in ("gas", "latency", "miss_rate")]
    return sum(
        test(gas, latency, misses)
        for gas, latency, misses in zip(*columns, strict=True)
        if gas is not None and latency is not None and misses is not None
    )


def _three(figures: dict[str, float]) -> str:
    return (
        f"{figures['gas']:.1f} gas, a latency of {figures['latency']:.1f} and"
        f" {_percent(figures['miss_rate'])} misses"
    )


def _three_of(row: Row) -> str:
    figures = {name: row.iqm(name) for name in ("gas", "latency", "miss_rate")}
    return _three(figures) + (f" ({row.seeds} seeds)" if row.trained else "")


def _percent(share: float, decimals: int = 1) -> str:
    return f"{100 * share:.{decimals}f} %"


def _points(share: float) -> str:
    return f"{100 * share:+.1f} points"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""
