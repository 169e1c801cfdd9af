"""Audits from end to end: the whole worker, real nodes as processes, real HTTP, a local ledger.

The worker runs on one core and the nodes on another. Processor time is compared with a prover in
this process on the same file: `reference_prover` reads its blocks one after another, as provers did
before. Few files are on the nodes; many holdings have the same ones, each with its own schedule,
row on the ledger and evidence.
"""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import structlog
from sqlalchemy import func, insert, select, update

from holdfast.bench.node import serve_node
from holdfast.bench.reference_prover import read_serially, reference_prove
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.service import Service, milliseconds, open_service
from holdfast.control.settings.models import ControlSettings, Timeouts
from holdfast.durations import MINUTE
from holdfast.ledger.interface import NUMBER_BITS
from holdfast.node.identity import NodeKey
from holdfast.owner import Home, Original, add_holding, put
from holdfast.owner.catalogue import HoldingRecord
from holdfast.pdp import Inventory, Location, Prover, SecretKey, StoredFile, TagFile, draw_challenge
from holdfast.pdp.keys import draw_nonce
from holdfast.pdp.readers import LocalFile
from holdfast.pdp.sealing import ScryptCost
from holdfast.pdp.tagfile import TagHeader
from holdfast.pdp.tagging import TaggingPool, chunks_of
from holdfast.processes import Child, cores, start_child
from holdfast.storage.database import open_engine, transaction
from holdfast.storage.home_schema import catalogue, files, registrations
from holdfast.storage.schema import audits, holdings
from holdfast.storage.sqlite import open_file

REFERENCE = "a prover in this process that reads block after block; the prover that nodes have"
NODES, FILES_PER_NODE = 4, 2
BLOCKS_PER_SAMPLE = 5  # a policy samples a fifth at most
MAIN = (16, 460)  # sectors and samples
POINTS = ((1, 46), (1, 460), (1, 4600), (16, 46), MAIN, (16, 4600))
PASSPHRASE, COST = b"bench", ScryptCost(n=16)
DEADLINE = 5 * MINUTE
HUNG_SECONDS = 6.0
PROOFS = 40

Say = Callable[[str], None]


def measure(
    *,
    count: int,
    many: int,
    rounds: int,
    cold_bytes: int,
    points: Sequence[tuple[int, int]] = POINTS,
    main: tuple[int, int] = MAIN,
    say: Say,
) -> dict[str, Any]:
    """Return audits a second and processor times, and their ratios to the references."""
    details: dict[str, dict[str, float]] = {}
    with _silent(), _pinned() as (worker_core, node_core):
        for sectors, samples in points:
            say(f"{count} holdings on {NODES} nodes, S = {sectors}, s = {samples}")
            with _fleet(sectors, samples, count, node_core) as fleet:
                details[f"S{sectors}_s{samples}"] = fleet.figures(rounds)
                if (sectors, samples) == main:
                    say("the same with a quarter of the nodes stopped")
                    hung = fleet.hung_over_well()
        say(f"{many} holdings, S = {main[0]}, s = {main[1]}")
        with _fleet(*main, many, node_core) as fleet:
            crowd = fleet.figures(1)
    say(f"{main[1]} blocks of {cold_bytes >> 20} MiB that are not in memory")
    cold = _cold_over_serial(cold_bytes, main[1])
    first = details[f"S{main[0]}_s{main[1]}"]
    return {
        "reference": REFERENCE,
        "nodes": NODES,
        "holdings": count,
        "cores": {"worker": worker_core, "nodes": node_core},
        "audits_per_second_per_core": first["audits_per_second"],
        "worker_over_reference_prover": first["worker_over_reference_prover"],
        "node_over_prover": first["node_over_prover"],
        "with_a_quarter_hung_over_all_well": hung,
        f"cpu_{many}_over_{count}_holdings": crowd["worker_cpu_ms"] / first["worker_cpu_ms"],
        "cold_over_serial": cold,
        **details,
    }


@contextmanager
def _silent() -> Iterator[None]:
    """Drop the log's lines, one for each audit."""
    before = structlog.get_config() if structlog.is_configured() else None
    structlog.configure(processors=[_drop])
    try:
        yield
    finally:
        if before is None:
            structlog.reset_defaults()
        else:
            structlog.configure(**before)


def _drop(_logger: Any, _method: str, _event: Any) -> Any:
    raise structlog.DropEvent


@contextmanager
def _pinned() -> Iterator[tuple[int, int]]:
    """Pin this process to one core, and yield it with the one that nodes get."""
    ours = cores()
    first, last = ours[0], ours[-1]
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {first})
    try:
        yield first, last
    finally:
        os.sched_setaffinity(0, before)


@dataclass(frozen=True)
class _Node:
    child: Child
    url: str
    address: bytes

    @property
    def pid(self) -> int:
        return int(self.child.process.pid or 0)

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass
class _Fleet:
    service: Service
    nodes: Sequence[_Node]
    count: int
    samples: int
    file: Path
    sectors: int

    def figures(self, rounds: int) -> dict[str, float]:
        self.make_due()
        self._audit_all()  # keys and inventories are read, connections made
        runs = [self._run() for _ in range(rounds)]
        provers = _prover_cpu(self.file, self.sectors, self.samples)
        figures = {name: median(run[name] for run in runs) for name in runs[0]}
        return {
            **figures,
            "reference_prover_cpu_ms": provers["reference"],
            "prover_cpu_ms": provers["prover"],
            "worker_over_reference_prover": figures["worker_cpu_ms"] / provers["reference"],
            "node_over_prover": figures["node_cpu_ms"] / provers["prover"],
        }

    def _run(self) -> dict[str, float]:
        self.make_due()  # which time does elsewhere
        nodes, worker = self._node_cpu(), time.process_time()
        start = time.perf_counter()
        self._audit_all()
        lasted = time.perf_counter() - start
        return {
            "audits_per_second": self.count / lasted,
            "worker_cpu_ms": 1000 * (time.process_time() - worker) / self.count,
            "node_cpu_ms": 1000 * (self._node_cpu() - nodes) / self.count,
        }

    def _node_cpu(self) -> float:
        return sum(node.cpu_seconds() for node in self.nodes)

    def _audit_all(self) -> None:
        """Audit every holding, all of which are due."""
        goal = self._audits() + self.count
        over = time.monotonic() + 600
        while self._audits() < goal:
            self.service.step()
            if time.monotonic() > over:
                raise RuntimeError("the audits did not end within 600 s")
        with transaction(self.service.schedule.engine) as connection:
            last = select(audits.c.outcome).order_by(audits.c.id.desc()).limit(self.count)
            outcomes = set(connection.execute(last).scalars())
        if outcomes != {"passed"}:
            raise RuntimeError(f"audits ended as {outcomes}, where all must pass")

    def hung_over_well(self) -> float:
        """Return the rate of audits on the other nodes while one is stopped, over all well."""
        hung = self.nodes[0]
        others = select(func.count()).select_from(
            audits.join(catalogue, catalogue.c.scheduled == audits.c.holding)
        )
        others = others.where(catalogue.c.node != hung.address)

        def count() -> int:
            with transaction(self.service.schedule.engine) as connection:
                return int(connection.execute(others).scalar() or 0)

        def rate() -> float:
            self._step_for(1.0)
            before, start = count(), time.perf_counter()
            self._step_for(HUNG_SECONDS)
            return (count() - before) / (time.perf_counter() - start)

        well = rate()
        os.kill(hung.pid, signal.SIGSTOP)
        try:
            return rate() / well
        finally:
            os.kill(hung.pid, signal.SIGCONT)

    def _step_for(self, seconds: float) -> None:
        """Work while every holding is due again as soon as it was audited."""
        over = time.monotonic() + seconds
        while time.monotonic() < over:
            self.make_due()
            self.service.step()

    def make_due(self) -> None:
        due = update(holdings).where(holdings.c.flight.is_(None)).values(due=milliseconds() - 1)
        with transaction(self.service.schedule.engine) as connection:
            connection.execute(due)

    def _audits(self) -> int:
        with transaction(self.service.schedule.engine) as connection:
            return int(connection.execute(select(func.max(audits.c.id))).scalar() or 0)


@contextmanager
def _fleet(sectors: int, samples: int, count: int, core: int) -> Iterator[_Fleet]:
    settings = ControlSettings(
        policy="constant:1,0.20",
        rails=Rails(sample_cap=samples, jitter=0.0, surprise=0.0),
        patience=Timeouts(deadline=DEADLINE),
    )
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        home = Home.create(folder / "home", PASSPHRASE, COST)
        nodes = [stack.enter_context(_node(folder / f"node-{n}", home, core)) for n in range(NODES)]
        path = folder / "file"
        path.write_bytes(os.urandom(31 * sectors * samples * BLOCKS_PER_SAMPLE - 1))
        records = []
        for k in range(NODES * FILES_PER_NODE):
            node = nodes[k % NODES]
            record = add_holding(home, f"file-{k}", node.url, sectors=sectors, encrypted=False)
            with home.changing(record.name) as holding:
                put(holding, "file", Original.of(Location(str(path))), processes=1)
            records.append(record)
        _multiply(home, records, count)
        service = stack.enter_context(open_service(home, settings))
        service.enrol(milliseconds())
        fleet = _Fleet(service, nodes, count, samples, path, sectors)
        while service.worker.tick().decided:  # all are due at first, for a decision
            pass
        yield fleet
        service.stop_worker()


@contextmanager
def _node(store: Path, home: Home, core: int) -> Iterator[_Node]:
    key = NodeKey.generate()
    with start_child(serve_node, store, key, home.keyring.owner, core=core) as child:
        yield _Node(child, child.pipe.recv(), key.address)


def _multiply(home: Home, records: Sequence[HoldingRecord], count: int) -> None:
    """Enter more holdings with the files of these, until there are `count`."""
    first = records[0]
    with open_engine(home.address) as engine, transaction(engine) as connection:
        rows = {row["name"]: row for row in connection.execute(select(catalogue)).mappings()}
        file_rows = {row["holding"]: row for row in connection.execute(select(files)).mappings()}
        known = {
            row["holding"]: row for row in connection.execute(select(registrations)).mappings()
        }
        numbers = {name: int(row["number"]) for name, row in rows.items()}
        number = max(numbers.values()) + 1
        more: list[tuple[str, str, int]] = []
        keys: list[tuple[int, int]] = []
        while len(records) + len(more) < count:
            source = records[len(more) % len(records)].name
            more.append((f"more-{number}", source, number))
            keys.append((number, numbers[source]))
            number += 1
        if not more:
            return
        for table, originals, name in (
            (catalogue, rows, "name"),
            (registrations, known, "holding"),
            (files, file_rows, "holding"),
        ):
            copies = []
            for new, source, at in more:
                row = {**originals[source]} | {name: new}
                row.pop("id", None)
                copies.append(row | ({"number": at} if table is catalogue else {}))
            connection.execute(insert(table), copies)
    _multiply_on_ledger(home, first.sectors, keys)


def _multiply_on_ledger(home: Home, sectors: int, keys: Sequence[tuple[int, int]]) -> None:
    ledger = open_file(home.folder / f"ledger-{sectors}.db")
    owner = int.from_bytes(home.keyring.sender, "big") << NUMBER_BITS
    ledger.execute("BEGIN IMMEDIATE")
    ledger.executemany(
        "INSERT INTO holdings SELECT ?, node, key, serial FROM holdings WHERE id = ?",
        [
            ((owner | new).to_bytes(24, "big"), (owner | old).to_bytes(24, "big"))
            for new, old in keys
        ],
    )
    ledger.execute("COMMIT")
    ledger.close()


def _prover_cpu(path: Path, sectors: int, samples: int) -> dict[str, float]:
    """Return milliseconds of processor time a proof, by the reference and by our prover."""
    with _tagged(path, sectors) as (prover, inventory):
        challenges = [draw_challenge(inventory, samples) for _ in range(PROOFS)]
        provers = {"reference": reference_prove, "prover": Prover.prove}
        best = dict.fromkeys(provers, float("inf"))
        for _ in range(5):
            for name, prove in provers.items():
                fresh = [replace(challenge) for challenge in challenges]
                start = time.process_time()
                for challenge in fresh:
                    prove(prover, challenge)
                best[name] = min(best[name], 1000 * (time.process_time() - start) / PROOFS)
    return best


@contextmanager
def _tagged(path: Path, sectors: int) -> Iterator[tuple[Prover, Inventory]]:
    key = SecretKey.generate(sectors)
    header = TagHeader(key.public.id, bytes(16), 1, draw_nonce(), sectors, path.stat().st_size)
    inventory = Inventory(key.public.id, sectors).with_file(header.entry)
    tags_path = path.with_suffix(".tags")
    with LocalFile(path) as data:
        pool = TaggingPool(data, key, header)
        with tags_path.open("wb") as tags:
            tags.write(header.encode())
            for chunk in chunks_of(header):
                tags.write(pool.pages(chunk))
        with LocalFile(tags_path) as tags_file:
            stored = StoredFile(data, TagFile(tags_file))
            yield Prover(inventory, {bytes(16): stored}), inventory


def _cold_over_serial(size: int, samples: int, tries: int = 5) -> float:
    """Return how long a proof from data that is not in memory takes, over serial reads of it."""
    times: dict[str, list[float]] = {"prover": [], "serial": []}
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        path = Path(folder) / "cold"
        with path.open("wb") as file:
            for _ in range(size >> 20):
                file.write(os.urandom(1 << 20))
            file.flush()
            os.fsync(file.fileno())
        with _tagged(path, 16) as (prover, inventory):
            for _ in range(tries):
                for name, work in {"prover": Prover.prove, "serial": read_serially}.items():
                    challenge = draw_challenge(inventory, samples)
                    _ = challenge.sample
                    _forget(path)
                    start = time.perf_counter()
                    work(prover, challenge)
                    times[name].append(time.perf_counter() - start)
    return median(times["prover"]) / median(times["serial"])


def _forget(path: Path) -> None:
    """Have the kernel drop a file from memory."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
