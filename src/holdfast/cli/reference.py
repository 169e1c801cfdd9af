"""The reference pages of the command line, the API and the Python package, made from the code.

`python -m holdfast.cli.reference docs/reference` writes them; a test compares.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast import atomic
from holdfast.cli.app import LazyCommand, root_command
from holdfast.cli.python_reference import python_page
from holdfast.web.app import interface

HEAD = """# Command line

Made from the code by `make reference`. Every command takes `--help`. With `--json` it prints
JSON and nothing else on stdout. Exit code 0 means fine, 1 a finding, 2 could not run, 130
interrupted.
"""


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command by its words, in the order of the help."""
    yield from _commands_below(root_command(), ())


def _commands_below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(command, LazyCommand):
        yield words, command.load()
        return
    for name, inner in command.commands.items():
        yield from _commands_below(inner, (*words, name))


def cli_page() -> str:
    return "\n".join([HEAD, *("\n".join(_section(*entry)) for entry in commands())])


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
    shown = parameter.show_default
    value = shown if isinstance(shown, str) else parameter.default
    if value in (None, False) or callable(value):
        return ""
    text = f"`{_cell(str(value))}`"
    return f"{text}, or `{parameter.envvar}`" if parameter.envvar else text


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def api_page() -> str:
    return json.dumps(interface(), indent=1, sort_keys=True) + "\n"


PAGES = {"cli.md": cli_page, "openapi.json": api_page, "python.md": python_page}


def main(folder: Path) -> None:
    atomic.make_directory(folder)
    for name, page in PAGES.items():
        atomic.write(folder / name, page().encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
