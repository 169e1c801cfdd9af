"""`holdfast policy`: learned policies in operation."""

import typer

from holdfast.cli.fit import fit
from holdfast.cli.retrain import retrain

app = typer.Typer(no_args_is_help=True, help="Learned policies in operation.")
app.command()(fit)
app.command()(retrain)
