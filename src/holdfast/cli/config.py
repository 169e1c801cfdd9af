"""`holdfast config`: the settings in effect and where their values come from."""

from dataclasses import asdict
from typing import Any

import typer

from holdfast.cli.home import DEFAULT_HOME, HomeFolder, home_folder
from holdfast.cli.terminal import PASSPHRASE_VARIABLE, Json, report, table
from holdfast.control.settings.models import HIDDEN
from holdfast.control.settings.show import Setting, Source, effective_settings
from holdfast.owner.ledgers import KEYSTORE_VARIABLE
from holdfast.secret_variables import secret

SOURCES = {"COMMANDLINE": Source.FLAG, "ENVIRONMENT": Source.ENVIRONMENT}


def show(context: typer.Context, home: HomeFolder = DEFAULT_HOME, as_json: Json = False) -> None:
    """Show every setting and where its value comes from.

    That is a flag, the environment, the file or a default. Names are those of holdfast.toml in the
    home. Secrets aren't shown. Needs no passphrase.

    Example: holdfast config show
    """
    folder = home_folder(home)
    settings = [*_outside_the_file(context, str(folder)), *effective_settings(folder)]
    rows = [(setting.name, str(setting.source), _value(setting.value)) for setting in settings]
    data = {"settings": [asdict(setting) for setting in settings]}
    report(data, table(("setting", "source", "value"), rows), as_json=as_json)


def _outside_the_file(context: typer.Context, folder: str) -> list[Setting]:
    """Return what flags and the environment set; of a passphrase, whether it is set."""
    origin = context.get_parameter_source("home")
    source = SOURCES.get(origin.name if origin else "", Source.DEFAULT)
    settings = [Setting("home", folder, source)]
    for variable in (PASSPHRASE_VARIABLE, KEYSTORE_VARIABLE):
        is_set = secret(variable) is not None
        source = Source.ENVIRONMENT if is_set else Source.DEFAULT
        settings.append(Setting(variable, HIDDEN if is_set else None, source))
    return settings


def _value(value: Any) -> str:
    if value is None:
        return "-"
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
