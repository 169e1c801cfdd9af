"""The command line: thin commands over the rooms of the house."""

from typing import NoReturn


def main() -> NoReturn:
    """Run the command of this process.

    The commands are imported here and not above: the processes that tag files import the script
    that started them anew, and have no use for the commands.
    """
    from holdfast.cli.app import main as run_command  # noqa: PLC0415

    run_command()
