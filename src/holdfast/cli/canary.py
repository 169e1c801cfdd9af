"""`holdfast canary`: damage that the owner plants, to observe what audits miss."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import terminal
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder, open_home
from holdfast.cli.terminal import Json, PassphraseFile, say
from holdfast.errors import InputError

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from holdfast.owner import Holding

app = typer.Typer(no_args_is_help=True, help="Damage of your own, to see whether audits find it.")

Name = Annotated[str, typer.Argument(metavar="HOLDING", help="A holding on a node of your own.")]
Store = Annotated[
    Path, typer.Option(exists=True, file_okay=False, help="The folder in which its node keeps it.")
]


@app.command()
def plant(
    holding: Name,
    store: Store,
    blocks: Annotated[int, typer.Option(min=1, help="How many blocks to damage.")] = 10,
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Damage blocks of a holding whose node you run; audits that fail there are then expected.

    Use a holding made for this: what it keeps is damaged until the canary is lifted.

    Example: holdfast canary plant cage --store /srv/node --blocks 20
    """
    from holdfast.control.inference import canaries  # noqa: PLC0415 - as in other commands
    from holdfast.control.service import milliseconds  # noqa: PLC0415

    with _open(home, passphrase_file, holding) as (engine, known):
        held = known.inventory.blocks
        if blocks > held:
            raise InputError(f"holding {holding!r} has {held} blocks, not {blocks}")
        chosen = sorted(random.SystemRandom().sample(range(held), blocks))
        canaries.plant(engine, holding, chosen, _flip(store, known), milliseconds())
    if as_json:
        terminal.print_json({"holding": holding, "damaged": chosen, "blocks": held})
    else:
        say(f"planted: {blocks} of {held} blocks of {holding} are damaged")


@app.command()
def lift(
    holding: Name,
    store: Store,
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Put the blocks of a canary back.

    Example: holdfast canary lift cage --store /srv/node
    """
    from holdfast.control.inference import canaries  # noqa: PLC0415 - as in other commands
    from holdfast.control.service import milliseconds  # noqa: PLC0415

    with _open(home, passphrase_file, holding) as (engine, known):
        canaries.lift(engine, holding, _flip(store, known), milliseconds())
    if as_json:
        terminal.print_json({"holding": holding, "lifted": True})
    else:
        say(f"lifted: the blocks of {holding} are as they were")


@app.command(name="list")
def list_command(home: HomeFolder = DEFAULT_HOME, as_json: Json = False) -> None:
    """Show all canaries, and what they tell of the efficacy of audits.

    Example: holdfast canary list
    """
    from holdfast.control.inference import canaries  # noqa: PLC0415 - as in other commands
    from holdfast.control.settings.models import read_control  # noqa: PLC0415
    from holdfast.evidence.explain import when  # noqa: PLC0415
    from holdfast.inference.efficacy import efficacy  # noqa: PLC0415
    from holdfast.owner import check_home  # noqa: PLC0415
    from holdfast.storage.database import opened  # noqa: PLC0415

    folder = home.expanduser()
    check_home(folder)
    with opened(read_control(folder).address(folder), read_only=True) as engine:
        every, trials = canaries.listing(engine), canaries.read_trials(engine)
    told = efficacy(trials)
    if as_json:
        data = {"canaries": [asdict(each) for each in every], "audits": len(trials.detected)}
        terminal.print_json(data | {"efficacy": asdict(told.estimate), "sound": told.sound})
        return
    for each in every:
        found = "not found yet" if each.found is None else f"found {when(each.found)}"
        lifted = "" if each.lifted is None else f", lifted {when(each.lifted)}"
        planted = f"{each.blocks} blocks planted {when(each.planted)}"
        say(f"{each.holding}: {planted}, {found}{lifted}")
    shown = told.estimate
    say(
        f"{len(trials.detected)} audits met planted damage: they find {shown.value:.0%} of what "
        f"they should, between {shown.low:.0%} and {shown.high:.0%}"
    )


@contextmanager
def _open(
    home: Path, passphrase_file: Path | None, name: str
) -> Iterator[tuple["Engine", "Holding"]]:
    from holdfast.control.settings.models import read_control  # noqa: PLC0415
    from holdfast.storage.database import opened  # noqa: PLC0415 - as above

    place = open_home(home, passphrase_file)
    address = read_control(place.folder).address(place.folder)
    with opened(address, read_only=False) as engine, place.holding(name) as holding:
        yield engine, holding


def _flip(store: Path, holding: "Holding") -> Callable[[Sequence[int]], None]:
    from holdfast.node.canary import flip_blocks  # noqa: PLC0415 - as above
    from holdfast.node.objects import Folder  # noqa: PLC0415

    return lambda blocks: flip_blocks(Folder(store), holding.owner, holding.key_id, blocks)
