"""How long the API and the pages take over a large database: what a view loads first.

The real server runs in a process of its own. The audits of most of a year are entered, with a leaf
for each; the reference is an answer for which the server looks nothing up. Beside the time of an
answer stands the processor time that the server takes for it, which others on the machine change
less, and whether the planner of the database uses the indices.
"""

import multiprocessing
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import numpy as np
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Engine,
    Table,
    Text,
    case,
    cast,
    insert,
    literal,
    null,
    select,
    text,
    true,
    update,
)

from holdfast.bench import postgres
from holdfast.bench.control import NOW, POLICY, SCATTER, Crew
from holdfast.bench.query_plans import scans
from holdfast.control.evidence.reader import VERIFIER
from holdfast.control.evidence.sequencer import Sequencer
from holdfast.control.incidents.alerts import Alerts
from holdfast.control.policies.active import ensure_champion
from holdfast.control.policies.aliases import Author, challenge, read_aliases
from holdfast.control.policies.versions import Registry
from holdfast.control.scheduling.schedule import Schedule
from holdfast.control.settings.models import ControlSettings, WebSettings
from holdfast.durations import DAY
from holdfast.errors import StorageError
from holdfast.evidence.note import Signer
from holdfast.evidence.tree import HASH_BYTES, SUBTREE
from holdfast.model.scenario import FIELD
from holdfast.pdp import SecretKey
from holdfast.storage.database import connect, migrate, transaction
from holdfast.storage.inference_schema import confidences
from holdfast.storage.schema import audits, checkpoints, holdings, leaves, shadow_sums, subtrees
from holdfast.web.server import RunningServer, listen, open_context, url_of

REFERENCE = "an answer of the same server for which it looks nothing up"
BLOCKS, SECTORS = 10**6, 16
CHUNK = 100_000  # rows entered at once
ALERTS = 200
HEAD = 256  # leaves between two signed heads
UNKNOWN = "nothing"
CHALLENGER = "heuristic"
# These begin a simulation beside them.
SIMULATED = {"cost.rules", "plan", "pages.cost", "pages.plan"}

Say = Callable[[str], None]
Number = ColumnElement[int]


def views(count: int, total: int) -> dict[str, str]:
    """Return what each view loads first, by name."""
    some, place = count // 2, total // 3
    return {
        "fleet": "fleet",
        "holdings": "holdings",
        "holdings.overdue": "holdings?health=overdue&health=damaged",
        "holdings.search": "holdings?search=77&sort=name",
        "holdings.confidence": "holdings?sort=confidence",
        "holding": f"holdings/{some}",
        "holding.timeline": f"holdings/{some}/timeline?limit=20",
        "holding.belief": f"holdings/{some}/belief",
        "holding.audits": f"audits?holding={some}",
        "audits": "audits",
        "audits.failed": "audits?outcome=failed",
        "rails.recent": "audits?overridden=true",
        "evidence": "evidence",
        "evidence.leaves": "evidence/leaves?limit=20",
        "evidence.leaf": f"evidence/leaves/{place}",
        "evidence.heads": "evidence/heads?limit=20",
        "policies": "policies",
        "policies.history": "policies/history",
        "policies.shadow": "policies/challenger/shadow",
        "cost": "cost?days=90",
        "cost.rules": "cost/rules",
        "plan": "plan",
        "status": "status",
        "alerts": "alerts",
        "cases": "cases",
    }


def pages(count: int, total: int) -> dict[str, str]:
    """Return the dashboard's pages, by name."""
    return {
        "fleet": "/",
        "fleet.search": "/?search=77&sort=name",
        "holding": f"/holdings/{count // 2}",
        "policies": "/policies",
        "evidence": "/evidence",
        "evidence.leaf": f"/evidence/{total // 3}",
        "alerts": "/alerts",
        "cost": "/cost",
        "plan": "/plan",
    }


def measure(*, count: int, total: int, loads: int, say: Say) -> dict[str, Any]:
    """Return the 95th percentile of each resource in ms, on each kind of database."""
    figures: dict[str, Any] = {"reference": REFERENCE, "holdings": count, "audits": total}
    for name, database in {"sqlite": _sqlite, "postgres": _postgres}.items():
        if name == "postgres" and not postgres.installed():
            say("PostgreSQL is not installed here: its figures are left out")
            continue
        with TemporaryDirectory(prefix="holdfast-bench-") as folder, database(folder) as address:
            say(f"{name}: entering {count} holdings and {total} audits")
            fill(address, Path(folder), count, total)
            say(f"{name}: loading each page of the dashboard, {loads} times")
            with _served(Path(folder), address) as server:
                shown = _loaded(server, pages(count, total), loads)
                say(f"{name}: loading what each view loads first, {loads} times")
                figures[name] = _loaded(server, views(count, total), loads) | {"pages": shown}
            say(f"{name}: asking how it finds all that")
            figures[name]["scans"] = _scans(Path(folder), address, count, total)
    return figures


@dataclass(frozen=True)
class Running:
    client: httpx.Client
    process: int

    def spent(self) -> float:
        """Return the seconds of processor time that the server has had, as Linux counts them."""
        return time.clock_gettime((~self.process << 3) | 2)


def _loaded(server: Running, paths: dict[str, str], loads: int) -> dict[str, Any]:
    timings: dict[str, list[float]] = {name: [] for name in (*paths, UNKNOWN)}
    spent = dict.fromkeys(timings, 0.0)
    for _ in range(loads):
        for name, path in {**paths, UNKNOWN: UNKNOWN}.items():
            before, start = server.spent(), time.perf_counter()
            answer = server.client.get(server.client.base_url.join(path))
            timings[name].append(1000 * (time.perf_counter() - start))
            spent[name] += 1000 * (server.spent() - before) / loads
            if name != UNKNOWN and answer.status_code != httpx.codes.OK:
                raise StorageError(f"{path} was answered with {answer.status_code}: {answer.text}")
    p95 = {name: float(np.percentile(times, 95)) for name, times in timings.items()}
    reference = p95.pop(UNKNOWN)
    slowest = max(p95, key=p95.__getitem__)
    return {
        "p95_ms": p95,
        "first_ms": {name: times[0] for name, times in timings.items()},
        "processor_ms": spent,
        "reference_ms": reference,
        "slowest": slowest,
        "slowest_ms": p95[slowest],
        "slowest_over_reference": p95[slowest] / reference,
    }


def _scans(folder: Path, address: str, count: int, total: int) -> dict[str, list[str]]:
    """Return what is read as a whole, of all that is looked up and not simulated."""
    resources = {name: f"/api/v1/{path}" for name, path in views(count, total).items()}
    whole = resources | {f"pages.{name}": path for name, path in pages(count, total).items()}
    asked = {name: path for name, path in whole.items() if name not in SIMULATED}
    settings = ControlSettings(database=address)
    with open_context(folder, settings, clock=lambda: NOW) as context:
        return scans(context, asked)


def fill(address: str, folder: Path, count: int, total: int) -> None:
    """Audit one holding, and multiply it and its audit."""
    crew = Crew(SecretKey.generate(SECTORS))
    signer = Signer("holdfast/bench", bytes(32))
    (folder / VERIFIER).write_text(f"{signer.verifier}\n")
    engine = connect(address)
    try:
        migrate(engine)
        ensure_champion(engine, POLICY, FIELD, NOW - 14 * DAY)
        _name_challenger(engine)
        Schedule(engine).add([("holding 1", BLOCKS, crew.key.public)], NOW - 14 * DAY)
        worker = crew.worker(engine)
        worker.tick()
        with transaction(engine) as connection:
            connection.execute(update(holdings).values(due=NOW))
        worker.tick()
        Sequencer(engine, signer, lambda: NOW).sequence()
        _multiply(engine, count, total)
        _shade(engine, count, total // count)
        alerts = Alerts(engine, lambda: NOW)
        for number in range(ALERTS):
            alerts.raise_alert("node-offline", f"holding {number}", "can't reach the node")
        if engine.dialect.name == "postgresql":
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(text("VACUUM ANALYZE"))
    finally:
        engine.dispose()


def _multiply(engine: Engine, count: int, total: int) -> None:
    each = total // count  # audits of a holding
    _copied(
        engine,
        holdings,
        1,
        count,
        {
            "id": lambda n: n,
            "name": lambda n: literal("holding ") + cast(n, Text),
            "due": lambda n: NOW + n * SCATTER % (7 * DAY) - DAY // 24,
            "number": lambda _: literal(each),
            "outcome": _outcome,
        },
    )
    with transaction(engine) as connection:
        connection.execute(update(holdings).where(holdings.c.id == 1).values(number=each))
    step = 300 * DAY // total
    _copied(
        engine,
        audits,
        1,
        total,
        {
            "id": lambda n: n,
            "holding": lambda n: 1 + (n - 1) % count,
            "number": lambda n: 1 + (n - 1) // count,
            "ended": lambda n: NOW - (total - n) * step,
            "outcome": _outcome,
            "overrides": lambda n: case((n % 20 == 0, 4), (n % 33 == 0, 64), else_=0),
        },
    )
    _copied(
        engine,
        leaves,
        3,  # the first audit's; the policies that decide came before it
        total,
        {
            "id": lambda n: n,
            "place": lambda n: n - 1,
            "holding": lambda n: 1 + (n - 1) % count,
            "proof": lambda _: null(),
        },
    )
    with transaction(engine) as connection:
        whole = [{"id": number, "root": bytes(HASH_BYTES)} for number in range(total // SUBTREE)]
        connection.execute(insert(subtrees), whole)
    _copied(
        engine,
        checkpoints,
        1,
        total // HEAD,
        {
            "id": lambda n: n,
            "size": lambda n: n * HEAD,
        },
    )


def _name_challenger(engine: Engine) -> None:
    with transaction(engine) as connection:
        known = read_aliases(connection)
    version = Registry(engine).register(CHALLENGER, FIELD, NOW).version
    challenge(engine, known, version, Author("bench", NOW - 14 * DAY))


def _shade(engine: Engine, count: int, each: int) -> None:
    """Let the challenger have run in shadow all the time, and infer something of each holding."""
    with transaction(engine) as connection:
        known = read_aliases(connection)
    draws, days = np.random.default_rng(0), 5 * each
    pair = {"version": known.challenger, "champion": known.champion}
    sums = {"first": NOW - 300 * DAY, "last": NOW, "decisions": each, "agreed": each // 2}
    rows, said = [], []
    for number in range(2, count + 1):  # the first one has its own
        gas = {side: draws.uniform(0.01, 0.02) * each for side in ("", "champion_")}
        terms = {"interval": days, "ratio": 0.05 * each, "rails": 1, "outside": 0}
        both = {f"{side}{name}": value for side in gas for name, value in terms.items()}
        both |= {f"{side}{name}": gas[side] for side in gas for name in ("gas", "spent")}
        rows.append({**pair, "holding": number, **sums, "time": days, **both})
        most = draws.uniform(0, 0.1)
        sure: dict[str, float] = {"holding": number, "at": NOW, "number": each}
        said.append(sure | {"at_most": most, "damaged": most})
    with transaction(engine) as connection:
        connection.execute(insert(shadow_sums), rows)
        connection.execute(insert(confidences), said)


def _outcome(n: Number) -> ColumnElement[str]:
    return case((n % 97 == 0, "failed"), (n % 89 == 0, "offline"), else_="passed")


def _copied(
    engine: Engine,
    table: Table,
    source: int,
    last: int,
    changed: dict[str, Callable[[Number], ColumnElement[Any]]],
) -> None:
    """Enter copies of a row up to the last number, on which some columns depend."""
    same = [column.name for column in table.c if column.name not in changed]
    for start in range(source + 1, last + 1, CHUNK):
        stop = min(start + CHUNK - 1, last)
        numbers = select(literal(start, BigInteger).label("n")).cte("numbers", recursive=True)
        numbers = numbers.union_all(select(numbers.c.n + 1).where(numbers.c.n < stop))
        kept = (table.c[name] for name in same)
        copies = (
            select(*(make(numbers.c.n) for make in changed.values()), *kept)
            .join_from(table, numbers, true())
            .where(table.c.id == source)
        )
        with transaction(engine) as connection:
            connection.execute(insert(table).from_select([*changed, *same], copies))


@contextmanager
def _served(folder: Path, address: str) -> Iterator[Running]:
    listener = listen(WebSettings(("127.0.0.1", 0)))
    if listener is None:
        raise StorageError("there is no socket to listen on")
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(listener, folder, address)
    )
    with listener:
        process.start()
        try:
            with httpx.Client(base_url=f"{url_of(listener)}/api/v1/", timeout=60) as client:
                with suppress(httpx.HTTPError):
                    client.get(UNKNOWN)  # once it listens
                yield Running(client, process.pid or 0)
        finally:
            process.terminate()
            process.join()


def _serve(listener: socket.socket, folder: Path, address: str) -> None:
    settings = ControlSettings(database=address)
    RunningServer(listener, folder, settings).run(clock=lambda: NOW)


@contextmanager
def _sqlite(folder: str) -> Iterator[str]:
    yield str(Path(folder) / "holdfast.db")


@contextmanager
def _postgres(_folder: str) -> Iterator[str]:
    server = postgres.Server()
    try:
        yield f"{server.make('bench')}&schema=public"
    finally:
        server.remove()
