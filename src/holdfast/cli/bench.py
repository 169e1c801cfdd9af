"""`holdfast bench`: what it costs, as ratios against named references measured in the same run."""

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from holdfast.bench import pdp
from holdfast.cli import terminal
from holdfast.cli.terminal import Json

app = typer.Typer(no_args_is_help=True, help="Measure, as ratios against named references.")

Rounds = Annotated[int, typer.Option(min=1, help="How often each contender is timed.")]


@app.command(name="pdp")
def pdp_command(
    rounds: Rounds = 300,
    large_mib: Annotated[
        int, typer.Option(min=1, help="Size of the file for memory and processes, in MiB.")
    ] = 1024,
    as_json: Json = False,
) -> None:
    """Compare tagging, proving, challenges and points with SHA-256.

    Example: holdfast bench pdp --json
    """
    figures = pdp.measure(rounds=rounds, large_bytes=large_mib << 20, say=tell)
    report(figures, as_json=as_json)


@app.command(name="ledger")
def ledger_command(as_json: Json = False) -> None:
    """Measure the gas of the contract's calls on an EVM in this process.

    Example: holdfast bench ledger --json
    """
    from holdfast.bench import ledger  # noqa: PLC0415 - the EVM is an extra

    report(ledger.measure(say=tell), as_json=as_json)


@app.command(name="evidence")
def evidence_command(rounds: Rounds = 3, as_json: Json = False) -> None:
    """Compare verifying a log of audits with checking each of its proofs by itself.

    Example: holdfast bench evidence --json
    """
    from holdfast.bench import evidence  # noqa: PLC0415 - NumPy would slow every command's start

    report({**evidence.measure(rounds=rounds, say=tell)}, as_json=as_json)


@app.command(name="node")
def node_command(
    rounds: Rounds = 200,
    size_mib: Annotated[int, typer.Option(min=1, help="Size of the file, in MiB.")] = 64,
    as_json: Json = False,
) -> None:
    """Compare a storage node on loopback with its prover and with a plain copy.

    Example: holdfast bench node --json
    """
    from holdfast.bench import node  # noqa: PLC0415 - FastAPI would slow every command's start

    report(node.measure(rounds=rounds, size=size_mib << 20, say=tell), as_json=as_json)


@app.command(name="control")
def control_command(
    rounds: Rounds = 100,
    holdings: Annotated[
        int, typer.Option(min=1, max=10**8, help="Holdings in each database.")
    ] = 1_000_000,
    as_json: Json = False,
) -> None:
    """Compare the control plane with its bare database and its matrix products, in minutes.

    The real worker claims, decides, records and reschedules; a ready result stands for the audit.
    PostgreSQL is started from what is installed, and left out where there is none.

    Example: holdfast bench control --json
    """
    from holdfast.bench import control  # noqa: PLC0415 - SQLAlchemy would slow every command's start

    report(control.measure(count=holdings, rounds=rounds, say=tell), as_json=as_json)


@app.command(name="web")
def web_command(
    holdings: Annotated[
        int, typer.Option(min=2, max=10**6, help="Holdings in each database.")
    ] = 10_000,
    audits: Annotated[
        int, typer.Option(min=1000, max=10**8, help="Audits in each database.")
    ] = 1_000_000,
    loads: Annotated[int, typer.Option(min=1, help="How often each view is loaded.")] = 50,
    as_json: Json = False,
) -> None:
    """Time what each view of the dashboard loads first, over a large database, in minutes.

    PostgreSQL is started from what is installed, and left out where there is none.

    Example: holdfast bench web --json
    """
    from holdfast.bench import web  # noqa: PLC0415 - FastAPI would slow every command's start

    report(web.measure(count=holdings, total=audits, loads=loads, say=tell), as_json=as_json)


def tell(step: str) -> None:
    terminal.messages.print(f"… {step}", style="dim")


def report(figures: dict[str, Any], *, as_json: bool) -> None:
    """Print the figures, nested ones with their names joined by points."""
    if as_json:
        terminal.print_json(figures)
        return
    table = Table("figure", "value")
    for name, value in flatten(figures):
        table.add_row(name, f"{value:.3g}" if isinstance(value, float) else str(value))
    Console().print(table)


def flatten(figures: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for name, value in figures.items():
        inner = isinstance(value, dict)
        rows += flatten(value, f"{prefix}{name}.") if inner else [(prefix + name, value)]
    return rows
