"""`holdfast policy`: the policies of a fleet."""

import typer

from holdfast.cli.retrain import retrain

app = typer.Typer(no_args_is_help=True, help="The policies of a fleet.")
app.command()(retrain)
