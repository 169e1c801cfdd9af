"""`holdfast config`: the settings in effect, and where each came from."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from holdfast.cli import terminal
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder
from holdfast.cli.terminal import PASSPHRASE_VARIABLE, Json, say
from holdfast.secret_variables import secret

if TYPE_CHECKING:
    from holdfast.control.settings.show import Setting

app = typer.Typer(no_args_is_help=True, help="The settings in effect.")


@app.command()
def show(context: typer.Context, home: HomeFolder = DEFAULT_HOME, as_json: Json = False) -> None:
    """Show every setting and where it came from: flag, environment, file or default.

    They are written as in holdfast.toml of the home. Secrets are not shown. Needs no passphrase.

    Example: holdfast config show
    """
    from holdfast.control.settings.show import effective_settings  # noqa: PLC0415 - as in other commands
    from holdfast.owner import check_home  # noqa: PLC0415

    folder = home.expanduser()
    check_home(folder)
    found = [*_around(context, str(folder)), *effective_settings(folder)]
    if as_json:
        terminal.print_json({"settings": [asdict(each) for each in found]})
        return
    width = max(len(each.name) for each in found)
    for each in found:
        say(f"{each.name:<{width}}  {each.source:<11}  {_text(each.value)}")


def _around(context: typer.Context, folder: str) -> list["Setting"]:
    """Return what flags and the environment say; of a passphrase, whether it is there."""
    from holdfast.control.settings.models import HIDDEN  # noqa: PLC0415 - as above
    from holdfast.control.settings.show import Setting, Source  # noqa: PLC0415
    from holdfast.owner.ledgers import KEYSTORE_VARIABLE  # noqa: PLC0415

    given = context.get_parameter_source("home")
    names = {"COMMANDLINE": Source.FLAG, "ENVIRONMENT": Source.ENVIRONMENT}
    source = names.get(given.name if given else "", Source.DEFAULT)
    found = [Setting("home", folder, source)]
    for variable in (PASSPHRASE_VARIABLE, KEYSTORE_VARIABLE):
        there = secret(variable) is not None
        source = Source.ENVIRONMENT if there else Source.DEFAULT
        found.append(Setting(variable, HIDDEN if there else None, source))
    return found


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
