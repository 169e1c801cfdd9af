"""The reference pages: every command from the commands themselves, the API from its application.

`python -m holdfast.cli.reference docs/reference` writes them; a test compares.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from holdfast import atomic
from holdfast.cli.app import front_door

HEAD = """# Command line

Made from the commands themselves by `make reference`. Every command takes `--help`; `--json` prints
data alone on stdout. Exit 0 is fine, 1 a finding, 2 could not run, 130 interrupted.
"""


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command by its words, in the order of the help."""
    yield from _leaves(get_command(front_door()), ())


def _leaves(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "commands"):
        yield words, command
        return
    for name, each in command.commands.items():
        yield from _leaves(each, (*words, name))


def cli_page() -> str:
    return "\n".join([HEAD, *("\n".join(_section(*each)) for each in commands())])


def _section(words: tuple[str, ...], command: Any) -> Iterator[str]:
    yield f"## holdfast {' '.join(words)}\n"
    text, _, example = command.help.partition("Example")
    yield f"{text.strip()}\n"
    lines = [
        line.strip().removeprefix("or: ") for line in example.partition(":")[2].strip().splitlines()
    ]
    yield "\n".join(("```", *(line for line in lines if line), "```\n"))
    yield "| argument or option | what it is | default |\n|---|---|---|"
    for parameter in command.params:
        if not parameter.hidden:
            yield f"| `{_name(parameter)}` | {_cell(parameter.help)} | {_default(parameter)} |"
    yield ""


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return _cell(parameter.metavar or parameter.name.upper())
    return ", ".join((*parameter.opts, *parameter.secondary_opts))


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    told = parameter.show_default
    value = told if isinstance(told, str) else parameter.default
    if value in (None, False) or callable(value):
        return ""
    shown = f"`{_cell(str(value))}`"
    return f"{shown}, or `{parameter.envvar}`" if parameter.envvar else shown


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def api_page() -> str:
    from holdfast.web.app import interface  # noqa: PLC0415 - FastAPI takes half a second

    return json.dumps(interface(), indent=1, sort_keys=True) + "\n"


PAGES = {"cli.md": cli_page, "openapi.json": api_page}


def main(folder: Path) -> None:
    atomic.make_directory(folder)
    for name, page in PAGES.items():
        atomic.write(folder / name, page().encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
