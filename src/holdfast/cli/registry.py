"""The registered policies of a home, opened for the commands about them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import terminal
from holdfast.cli.control import ControlPlane, open_control
from holdfast.control.policies.aliases import Aliases, read_aliases
from holdfast.control.policies.promotion import episodes_to_run
from holdfast.control.policies.versions import Registry
from holdfast.storage.database import transaction

Version = Annotated[
    str,
    typer.Argument(
        metavar="VERSION", help="champion, challenger, previous, or the start of its hash."
    ),
]


@dataclass(frozen=True)
class Policies(ControlPlane):
    registry: Registry
    shadow_registry: Registry  # with plug-ins, if the settings allow them
    aliases: Aliases

    def find(self, version: str) -> str:
        """Return the hash of a version that is named by an alias or the start of its hash."""
        return self.registry.find(version, self.aliases)


@contextmanager
def open_policies(home: Path, *, read_only: bool = False) -> Iterator[Policies]:
    with open_control(home, read_only=read_only) as control:
        with transaction(control.engine) as connection:
            aliases = read_aliases(connection)
        with_plugins = control.settings.allow_plugins
        yield Policies(
            **vars(control),
            registry=Registry(control.engine),
            shadow_registry=Registry(control.engine, with_plugins=with_plugins),
            aliases=aliases,
        )


@contextmanager
def judgement_bar(policies: Policies, version: str) -> Iterator[Callable[[float], None]]:
    """Show how many episodes are done of those that judging a version takes."""
    policy = policies.registry.serving(policies.find(version))
    total = episodes_to_run(policy, policies.settings.promotion)
    with terminal.progress_bar("simulating", total, of_bytes=False) as bar:
        yield bar.advance
