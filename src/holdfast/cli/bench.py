"""`holdfast bench`: what things cost, as ratios against references measured in the same run.

The module of a benchmark is imported when it runs: some need frameworks that few have installed.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

import typer

from holdfast.cli import terminal
from holdfast.cli.terminal import Json, report, table

Rounds = Annotated[int, typer.Option(min=1, help="How often each contender is timed.")]


def pdp(
    rounds: Rounds = 300,
    large_mib: Annotated[
        int, typer.Option(min=1, help="Size of the file for memory and processes, in MiB.")
    ] = 1024,
    as_json: Json = False,
) -> None:
    """Compare tagging, proving and challenges with SHA-256.

    Example: holdfast bench pdp --json
    """
    _measure("pdp", as_json, rounds=rounds, large_bytes=large_mib << 20, say=on_step)


def ledger(as_json: Json = False) -> None:
    """Measure the gas of the contract's calls.

    The EVM runs in this process.

    Example: holdfast bench ledger --json
    """
    _measure("ledger", as_json, say=on_step)


def evidence(rounds: Rounds = 3, as_json: Json = False) -> None:
    """Compare verifying a log with checking its proofs one by one.

    Example: holdfast bench evidence --json
    """
    _measure("evidence", as_json, rounds=rounds, say=on_step)


def node(
    rounds: Rounds = 200,
    size_mib: Annotated[int, typer.Option(min=1, help="Size of the file, in MiB.")] = 64,
    as_json: Json = False,
) -> None:
    """Compare a storage node with its prover and a plain copy.

    Example: holdfast bench node --json
    """
    _measure("node", as_json, rounds=rounds, size=size_mib << 20, say=on_step)


def audits(
    holdings: Annotated[int, typer.Option(min=8, max=10**6, help="Holdings on the nodes.")] = 256,
    many: Annotated[
        int, typer.Option(min=8, max=10**6, help="Holdings of the run that is compared.")
    ] = 10_000,
    rounds: Annotated[int, typer.Option(min=1, help="How often all holdings are audited.")] = 4,
    cold_mib: Annotated[
        int, typer.Option(min=8, help="Size of the file that is read from disk, in MiB.")
    ] = 1024,
    as_json: Json = False,
) -> None:
    """Measure audits from end to end, on real nodes.

    The worker runs on one core, four nodes on another. It takes minutes.

    Example: holdfast bench audits --json
    """
    _measure(
        "audits",
        as_json,
        count=holdings,
        many=many,
        rounds=rounds,
        cold_bytes=cold_mib << 20,
        say=on_step,
    )


def files(
    size_mib: Annotated[
        int, typer.Option(min=1, max=1 << 20, help="Size of the file, in MiB.")
    ] = 1024,
    encrypted: Annotated[
        bool, typer.Option("--encrypt", help="Put the file into an encrypted holding.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare put and get of a large file with a plain copy.

    The reference is a copy of the file, its fsync and its SHA-256. TMPDIR names the folder that is
    measured in; it needs space for four copies of the file.

    Example: holdfast bench files --json
    """
    _measure("files", as_json, size=size_mib << 20, encrypted=encrypted, say=on_step)


def existing(
    size_mib: Annotated[
        int, typer.Option(min=1, max=1 << 20, help="Size of the repositories, in MiB.")
    ] = 3072,
    direct_mib: Annotated[
        int, typer.Option(min=1, max=1 << 14, help="Size of the objects that are enrolled, in MiB.")
    ] = 2048,
    detection_mib: Annotated[
        int, typer.Option(min=16, max=1 << 20, help="Size of the repository that loses packs.")
    ] = 763,
    detection_runs: Annotated[
        int, typer.Option(min=1, help="How often packs are lost and looked for.")
    ] = 300,
    rounds: Annotated[int, typer.Option(min=1, help="How often each contender is timed.")] = 3,
    as_json: Json = False,
) -> None:
    """Compare audits of existing storage with its own tools.

    Repositories of restic and borg are made and checked. Direct holdings are on an object store
    on loopback. Another repository loses 1 % of its packs again and again, which a direct audit
    and restic look for. TMPDIR names the folder that is measured in; it needs space for two
    copies. What a missing tool can't measure is left out, with a word. It takes half an hour.

    Example: holdfast bench existing --json
    """
    _measure(
        "existing",
        as_json,
        size=size_mib << 20,
        direct_size=direct_mib << 20,
        detection_size=detection_mib << 20,
        detection_runs=detection_runs,
        rounds=rounds,
        say=on_step,
    )


def control(
    rounds: Rounds = 100,
    holdings: Annotated[
        int, typer.Option(min=1, max=10**8, help="Holdings in each database.")
    ] = 1_000_000,
    as_json: Json = False,
) -> None:
    """Compare the control plane with its bare database.

    The real worker claims, decides, records and reschedules; a prepared result replaces the audit.
    An installed PostgreSQL is started and measured, too. It takes minutes.

    Example: holdfast bench control --json
    """
    _measure("control", as_json, count=holdings, rounds=rounds, say=on_step)


def web(
    holdings: Annotated[
        int, typer.Option(min=2, max=10**6, help="Holdings in each database.")
    ] = 10_000,
    audits: Annotated[
        int, typer.Option(min=1000, max=10**8, help="Audits in each database.")
    ] = 1_000_000,
    loads: Annotated[int, typer.Option(min=1, help="How often each page is loaded.")] = 50,
    as_json: Json = False,
) -> None:
    """Time the first load of each dashboard page.

    The database is large, so it takes minutes. An installed PostgreSQL is started and measured,
    too.

    Example: holdfast bench web --json
    """
    _measure("web", as_json, count=holdings, total=audits, loads=loads, say=on_step)


def _measure(name: str, as_json: bool, **options: Any) -> None:
    """Run one benchmark and print its figures."""
    figures = import_module(f"holdfast.bench.{name}").measure(**options)
    report_figures(figures, as_json=as_json)


def report_figures(figures: Mapping[str, Any], *, as_json: bool) -> None:
    rows = [
        (label, f"{value:.3g}" if isinstance(value, float) else str(value))
        for label, value in _flatten(figures)
    ]
    report(figures, table(("figure", "value>"), rows), as_json=as_json)


def on_step(step: str) -> None:
    terminal.messages.print(f"… {step}", style="dim")


def _flatten(figures: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return nested figures with their names joined by points."""
    rows: list[tuple[str, Any]] = []
    for name, value in figures.items():
        nested = isinstance(value, Mapping)
        rows += _flatten(value, f"{prefix}{name}.") if nested else [(prefix + name, value)]
    return rows
