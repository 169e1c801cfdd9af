"""`holdfast canary`: damage that the owner plants, to observe what audits miss."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.control import ControlPlane, open_control
from holdfast.cli.home import DEFAULT_HOME, HomeFolder, open_home
from holdfast.cli.terminal import Json, PassphraseFile, report
from holdfast.control.inference import canaries
from holdfast.control.inference.canaries import Canary
from holdfast.errors import InputError
from holdfast.inference.efficacy import efficacy
from holdfast.node.canary import flip_blocks
from holdfast.node.objects import Folder
from holdfast.owner import Holding
from holdfast.words import when

Name = Annotated[str, typer.Argument(metavar="HOLDING", help="A holding on a node of your own.")]
Store = Annotated[
    Path, typer.Option(exists=True, file_okay=False, help="The folder in which the node stores it.")
]


def plant(
    holding: Name,
    store: Store,
    blocks: Annotated[int, typer.Option(min=1, help="How many blocks to damage.")] = 10,
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Damage blocks of a holding on a node that you run.

    Failed audits of it are then expected. Use a holding made for this: its data stays damaged until
    you lift the canary.

    Example: holdfast canary plant cage --store /srv/node --blocks 20
    """
    with _open(home, passphrase_file, holding) as (control, place):
        total = place.inventory.blocks
        if blocks > total:
            raise InputError(f"holding {holding!r} has {total} blocks, not {blocks}")
        damaged = sorted(random.SystemRandom().sample(range(total), blocks))
        canaries.plant(control.engine, holding, damaged, _flip(store, place), control.now())
    data = {"holding": holding, "damaged": damaged, "blocks": total}
    sentence = f"planted: {blocks} of {total} blocks of {holding} are damaged"
    report(data, sentence, as_json=as_json)


def lift(
    holding: Name,
    store: Store,
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Restore the blocks that a canary damaged.

    Example: holdfast canary lift cage --store /srv/node
    """
    with _open(home, passphrase_file, holding) as (control, place):
        canaries.lift(control.engine, holding, _flip(store, place), control.now())
    data = {"holding": holding, "lifted": True}
    report(data, f"lifted: the blocks of {holding} are restored", as_json=as_json)


def list_canaries(home: HomeFolder = DEFAULT_HOME, as_json: Json = False) -> None:
    """List all canaries and how much damage audits find.

    Example: holdfast canary list
    """
    with open_control(home, read_only=True) as control:
        planted, trials = canaries.listing(control.engine), canaries.read_trials(control.engine)
    result = efficacy(trials)
    share = result.estimate
    data = {
        "canaries": [asdict(canary) for canary in planted],
        "audits": len(trials.detected),
        "efficacy": asdict(share),
        "sound": result.sound,
    }
    summary = (
        f"{len(trials.detected)} audits sampled planted damage: they detect {share.value:.0%} of "
        f"what they should, between {share.low:.0%} and {share.high:.0%}"
    )
    if not len(trials.detected):
        summary = "no audit has sampled planted damage yet"
    report(data, [*map(_describe, planted), summary], as_json=as_json)


def _describe(canary: Canary) -> str:
    state = "not detected yet" if canary.found is None else f"detected {when(canary.found)}"
    lifted = "" if canary.lifted is None else f", lifted {when(canary.lifted)}"
    planted = f"{canary.blocks} blocks planted {when(canary.planted)}"
    return f"{canary.holding}: {planted}, {state}{lifted}"


@contextmanager
def _open(
    home: Path, passphrase_file: Path | None, name: str
) -> Iterator[tuple[ControlPlane, Holding]]:
    opened = open_home(home, passphrase_file)
    with open_control(home) as control, opened.holding(name) as holding:
        yield control, holding


def _flip(store: Path, holding: Holding) -> Callable[[Sequence[int]], None]:
    return lambda blocks: flip_blocks(Folder(store), holding.owner, holding.key_id, blocks)
