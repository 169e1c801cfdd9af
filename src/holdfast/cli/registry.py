"""The registry of a home's control plane, open for the commands about policies."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import terminal
from holdfast.cli.owner import HomeFolder
from holdfast.cli.server import user
from holdfast.cli.terminal import say

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from holdfast.control.policies.aliases import Aliases, Author
    from holdfast.control.policies.versions import Registry
    from holdfast.control.settings.models import ControlSettings
    from holdfast.evidence.leaf import Check

Seed = Annotated[
    int | None,
    typer.Option(min=0, help="Repeat the episodes of an earlier judgement; else fresh ones."),
]
Version = Annotated[
    str,
    typer.Argument(
        metavar="VERSION", help="champion, challenger, previous, or the beginning of its hash."
    ),
]


@dataclass(frozen=True)
class PolicyCommands:
    """An open registry, with all that commands ask of it."""

    engine: "Engine"
    settings: "ControlSettings"
    registry: "Registry"
    aliases: "Aliases"

    def find(self, version: str) -> str:
        return self.registry.find(version, self.aliases)

    def champion(self) -> str:
        return self.find("champion")

    def author(self, reason: str) -> "Author":
        from holdfast.control.policies.aliases import Author  # noqa: PLC0415 - as in other commands
        from holdfast.control.service import milliseconds  # noqa: PLC0415

        return Author(user(), milliseconds(), reason)


@contextmanager
def opened_desk(home: HomeFolder, *, read_only: bool = False) -> Iterator[PolicyCommands]:
    from holdfast.control.policies.aliases import read_aliases  # noqa: PLC0415 - as in other commands
    from holdfast.control.policies.versions import Registry  # noqa: PLC0415
    from holdfast.control.settings.models import read_control  # noqa: PLC0415
    from holdfast.owner import check_home  # noqa: PLC0415
    from holdfast.storage.database import opened, transaction  # noqa: PLC0415

    folder = home.expanduser()
    check_home(folder)
    settings = read_control(folder)
    with opened(settings.address(folder), read_only=read_only) as engine:
        with transaction(engine) as connection:
            aliases = read_aliases(connection)
        yield PolicyCommands(engine, settings, Registry(engine), aliases)


@contextmanager
def episode_bar(desk: PolicyCommands, version: str) -> Iterator[Any]:
    """Show how many episodes are done, of all that judging a version takes."""
    from holdfast.control.policies.promotion import episodes_to_run  # noqa: PLC0415 - as above

    policy = desk.registry.serving(desk.find(version))
    total, done = episodes_to_run(policy, desk.settings.promotion), 0.0
    with terminal.progress_bar("simulating", total, of_bytes=False) as bar:

        def progress(episodes: float) -> None:
            nonlocal done
            done += episodes
            bar.reach(done)

        yield progress


def tell_checks(checks: Sequence["Check"]) -> None:
    width = max(len(check.name) for check in checks)
    for check in checks:
        say(f"{'kept  ' if check.passed else 'BROKEN'}  {check.name.ljust(width)}  {check.detail}")
