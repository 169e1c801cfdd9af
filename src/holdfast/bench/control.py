"""How fast the control plane is, against its bare database and against its matrix products.

A cycle is all that the worker does with a due holding but the audit itself, for which a ready
result stands: claim, write down the departure, decide, record and reschedule. The bare database is
a twin with the same content, to which the driver says the very same statements in the same
transactions; the two take turns, batch by batch.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
from sqlalchemy import BigInteger, Engine, Text, cast, insert, literal, select, text, true

from holdfast.bench import postgres
from holdfast.bench.clock import Work, best_rates, best_times
from holdfast.bench.sql_recorder import Tape, replay
from holdfast.control.audits.pending import PendingAudit
from holdfast.control.audits.types import (
    AuditResult,
    Deferred,
    PreparedAudit,
    PreparedBatch,
    ProofDetail,
)
from holdfast.control.policies.active import PolicyLoader, ensure_champion
from holdfast.control.scheduling.claims import Claim
from holdfast.control.scheduling.decisions import Decisions, StoredMemory, decide
from holdfast.control.scheduling.guardrails import DRAWS, Rails
from holdfast.control.scheduling.schedule import Schedule
from holdfast.control.scheduling.telemetry import Telemetry, empty_history_bytes
from holdfast.control.scheduling.worker import Worker
from holdfast.control.settings.models import Pace
from holdfast.durations import DAY
from holdfast.errors import InputError
from holdfast.evidence.leaf import Holding, Opening, Outcome, Transaction
from holdfast.ledger import check
from holdfast.model.scenario import FIELD
from holdfast.pdp import Challenge, Proof, SecretKey, Target, curve
from holdfast.pdp.field import Q
from holdfast.policy.learned import Learned
from holdfast.policy.network import TILE
from holdfast.policy.serving import Serving, load_serving
from holdfast.storage.database import connect, migrate, transaction
from holdfast.storage.schema import holdings

REFERENCE = "the same statements by the bare driver; the network's matrix products"
NOW = 1_800_000_000_000
POLICY = "drqn-cmdp-plus"
BLOCKS, SAMPLES, SECTORS = 10**6, 10_000, 16
CHUNK = 100_000  # holdings entered at once
SCATTER = 7_919_777  # coprime to a day, so that neighbours in the table are due far apart
DECISIONS = 10_000
# They are timed so many times as often as batches: they take but milliseconds, and the best of 100
# still varied by a tenth from run to run.
OFTEN = 4

Say = Callable[[str], None]


def measure(*, count: int, rounds: int, say: Say) -> dict[str, Any]:
    """Return the figures with `count` holdings; those of PostgreSQL only if it is installed."""
    batch = Pace().batch
    if count < batch:
        raise InputError(f"there must be at least a batch of holdings, {batch}")
    crew = Crew(SecretKey.generate(SECTORS))
    figures: dict[str, Any] = {"reference": REFERENCE, "holdings": count, "batch": batch}
    say(f"deciding about {DECISIONS} holdings, and their matrix products alone")
    figures["decide_10k_over_matmul"] = _decisions(load_serving(POLICY, FIELD), OFTEN * rounds)
    for name, twins in {"sqlite": sqlite_twins, "postgres": postgres_twins}.items():
        if name == "postgres" and not postgres.installed():
            say("PostgreSQL is not installed here: its figures are left out")
            continue
        say(f"{name}: entering {count} holdings")
        with twins(crew, count, say) as (ours, bare):
            batches = min(rounds, count // batch)
            say(f"{name}: {batches} batches of {batch}, and the same by the bare driver")
            figures[name] = _cycles(crew, ours, bare, batches)
    return figures


@dataclass(frozen=True)
class ReadyAuditor:
    """Stands for the data plane: every audit has passed before it begins."""

    pending: PendingAudit
    result: AuditResult
    ready: list[Claim] = field(default_factory=list)

    def gas_price(self) -> int:
        return 0

    def prepare(self, claims: Sequence[Claim]) -> PreparedBatch:
        return PreparedBatch([PreparedAudit(self.pending, capped=False)] * len(claims))

    def start(self, audits: Sequence[tuple[Claim, PendingAudit]]) -> None:
        self.ready.extend(claim for claim, _ in audits)

    def collect(self, seconds: float) -> list[tuple[Claim, AuditResult | Deferred]]:  # noqa: ARG002 - it never waits
        claims, self.ready[:] = list(self.ready), []
        return [(claim, self.result) for claim in claims]

    def release(self, claims: Sequence[Claim]) -> None:
        """Do nothing: nothing was left."""

    def busy_nodes(self) -> tuple[bytes, ...]:
        return ()

    def abandon(self) -> None:
        self.ready.clear()


@dataclass(frozen=True)
class Crew:
    """What a worker is made of, whichever database it works on."""

    key: SecretKey

    def worker(self, engine: Engine) -> Worker:
        return Worker(
            Schedule(engine),
            _auditor(self.key),
            PolicyLoader(engine),
            rails=Rails(),
            constants=FIELD.constants,
            clock=lambda: NOW,
            rng=np.random.default_rng(1).random,
            pace=Pace(),
        )


def _auditor(key: SecretKey) -> ReadyAuditor:
    draws = np.random.default_rng(0)
    challenge = Challenge(draws.bytes(32), draws.bytes(32), BLOCKS, SAMPLES, 0, BLOCKS)
    sigma, *mu = (int.from_bytes(draws.bytes(32), "big") % Q for _ in range(SECTORS + 1))
    target = Target(key.public.id, challenge.id, curve.encode(curve.times_base(sigma)))
    deadline = NOW // 1000 + 3600
    result = AuditResult(
        name="holding",
        outcome=Outcome.PASSED,
        reason="",
        due=NOW,
        began=NOW - 200,
        ended=NOW,
        units=BLOCKS,
        checked=SAMPLES,
        gas=31_553,
        detail=ProofDetail(
            holding=Holding(1, draws.bytes(20), 1, key.public.id, draws.bytes(20)),
            challenge=challenge,
            target=target.point,
            opening=Opening(challenge.id, 1000 * deadline, None),
            sent=NOW - 150,
            answered=NOW,
            proof=Proof(challenge.id, sigma, tuple(mu)),
            signature=draws.bytes(65),
            verdict=Transaction(draws.bytes(32), 1, 31_553),
        ),
    )
    pending = PendingAudit(NOW, challenge, target.point, check.target_address(target), deadline)
    return ReadyAuditor(pending, result)


def _fill(engine: Engine, crew: Crew, count: int, say: Say) -> None:
    """Enter one holding and let it be decided about, then multiply it; all of them are due."""
    migrate(engine)
    ensure_champion(engine, POLICY, FIELD, NOW - 14 * DAY)
    Schedule(engine).add([("holding 0", BLOCKS, crew.key.public)], NOW - 14 * DAY)
    crew.worker(engine).tick()
    names = [column.name for column in holdings.c if column.name not in {"id", "name", "due"}]
    for first in range(1, count, CHUNK):
        last = min(first + CHUNK, count) - 1
        numbers = select(literal(first, BigInteger).label("n")).cte("numbers", recursive=True)
        numbers = numbers.union_all(select(numbers.c.n + 1).where(numbers.c.n < last))
        copies = (
            select(
                literal("holding ") + cast(numbers.c.n, Text),
                NOW - numbers.c.n * SCATTER % DAY,
                *(holdings.c[name] for name in names),
            )
            .join_from(holdings, numbers, true())
            .where(holdings.c.name == "holding 0")
        )
        with transaction(engine) as connection:
            connection.execute(insert(holdings).from_select(["name", "due", *names], copies))
        say(f"{last + 1} of {count} holdings are entered")


@contextmanager
def sqlite_twins(crew: Crew, count: int, say: Say) -> Iterator[tuple[Engine, Engine]]:
    with TemporaryDirectory(prefix="holdfast-bench-") as folder:
        ours, bare = str(Path(folder) / "ours.db"), str(Path(folder) / "bare.db")
        with _opened(ours) as engine:
            _fill(engine, crew, count, say)
        shutil.copy(ours, bare)
        with _opened(ours) as engine, _opened(bare) as twin:
            yield engine, twin


@contextmanager
def postgres_twins(crew: Crew, count: int, say: Say) -> Iterator[tuple[Engine, Engine]]:
    server = postgres.Server()
    try:
        ours = server.make("ours")
        with _opened(ours) as engine:
            _fill(engine, crew, count, say)
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(text("VACUUM ANALYZE holdings"))
        bare = server.make("bare", like="ours")
        with _opened(ours) as engine, _opened(bare) as twin:
            yield engine, twin
    finally:
        server.remove()


@contextmanager
def _opened(address: str) -> Iterator[Engine]:
    engine = connect(address)
    try:
        yield engine
    finally:
        engine.dispose()


def _cycles(crew: Crew, ours: Engine, bare: Engine, rounds: int) -> dict[str, float]:
    worker, tape = crew.worker(ours), Tape(ours)

    def cycle() -> int:
        return len(worker.tick().concluded)

    with bare.connect() as twin:
        driver = twin.connection.driver_connection

        def repeat() -> int:
            replay(driver, tape.take())
            return Pace().batch

        rates = best_rates({"ours": cycle, "bare": repeat}, rounds)
    return {
        "cycles_per_s": rates["ours"],
        "bare_per_s": rates["bare"],
        "over_bare": rates["ours"] / rates["bare"],
    }


def _decisions(policy: Serving, rounds: int) -> float:
    """Return how much longer decisions take than their products, from rows to rows."""
    histories = [empty_history_bytes()] * DECISIONS
    observed, news = np.full(DECISIONS, NOW), np.ones(DECISIONS, np.bool_)
    luck = np.random.default_rng(1).random((DRAWS, DECISIONS))
    memory = [bytes(row) for row in policy.fresh_rows(DECISIONS)]
    remembered = StoredMemory([policy.version] * DECISIONS, memory)

    held: list[Decisions] = []  # as a worker does; else their memory would go and come anew

    def decisions() -> None:
        telemetry = Telemetry.stored(histories, FIELD.constants, observed, news)
        held[:] = [decide(policy, Rails(), NOW, telemetry, remembered, luck)]

    # The time of the processor: what else runs would interrupt the longer of the two more often.
    contenders = {"decide": decisions, "products": _products(policy)}
    times = best_times(contenders, rounds, process_time)
    return times["decide"] / times["products"]


def _products(policy: Serving) -> Work:
    """Return the network's matrix products, of as many rows at once as it takes."""
    if not isinstance(policy.policy, Learned):
        raise TypeError("only a learned policy has a network")
    named = policy.policy.parameters
    weights = [weight for name, weight in named.items() if name.endswith(".weight")]
    draws = np.random.default_rng(2)
    seen = [draws.random((TILE, len(weight)), np.float32) for weight in weights]

    def products() -> None:
        for first in range(0, DECISIONS, TILE):
            for rows, weight in zip(seen, weights, strict=True):
                rows[: DECISIONS - first] @ weight

    return products
