"""What restic can do about damaged packs: the commands, in order, and what they give up.

A damaged pack leaves the index, and a copy of it is kept. The next backup from the source finds
that its content is missing, and stores it anew.
"""

import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast import atomic
from holdfast.checkers.interface import DamagedUnit, Defect
from holdfast.checkers.restic_repository import Repository
from holdfast.errors import StorageError

REPAIRS_PACKS, REPAIRS_INDEX = (0, 17), (0, 16)  # versions that have these commands
PACK_NAME_LENGTH = 64


@dataclass(frozen=True)
class Step:
    """One command, as the operator reads it, and how it is run."""

    shown: tuple[str, ...]
    units: frozenset[str]  # that it repairs
    run: Callable[[float], str]  # with a deadline; returns the tool's words
    loses_data: bool = False


def packs(units: Collection[DamagedUnit]) -> list[str]:
    """Return the names of those damaged units that are packs."""
    return [unit.name for unit in units if len(unit.name) == PACK_NAME_LENGTH]


def plan_repair(repository: Repository, units: Collection[DamagedUnit], kept: Path) -> list[Step]:
    """Return what repairs these units; nothing if this version of restic has no way."""
    missing = {unit.name for unit in units if unit.defect is Defect.MISSING}
    broken = [pack for pack in packs(units) if pack not in missing]
    indexed = {unit.name for unit in units if unit.name.startswith("index ")}
    version = repository.tool.version
    steps = []
    if broken and version >= REPAIRS_PACKS:
        steps.append(_restic(repository, ("repair", "packs", *broken), broken, kept, loses=True))
    elif broken and repository.folder:
        steps += [_make(kept), *(_move(repository, pack, kept) for pack in broken)]
    rebuilt = {*missing.intersection(packs(units)), *indexed}
    is_lost = any(unit.name.startswith(("blob ", "tree ")) for unit in units)  # maybe not indexed
    if rebuilt or is_lost or (broken and steps and version < REPAIRS_PACKS):
        command = ("repair", "index") if version >= REPAIRS_INDEX else ("rebuild-index",)
        steps.append(_restic(repository, command, rebuilt, kept))
    return steps


def advise(repository: Repository, units: Collection[DamagedUnit]) -> str:
    """Return what the operator should know before and do after the repair."""
    needs_newer = repository.tool.version < REPAIRS_PACKS and not repository.folder
    upgrade = "restic 0.17 or later can repair packs of this repository. " if needs_newer else ""
    return (upgrade if packs(units) else "") + (
        "Afterwards run the backup again from its source, with --force: it stores anew what is "
        "damaged. What no source has any more is lost, and restic repair snapshots --forget (0.16 "
        "or later) removes it from the snapshots."
    )


def _restic(
    repository: Repository,
    arguments: Sequence[str],
    units: Collection[str],
    kept: Path,
    *,
    loses: bool = False,
) -> Step:
    def run(deadline: float) -> str:
        ended = repository.repair(arguments, deadline, kept)
        if ended.code:
            raise repository.explain(ended).error()
        return repository.text(ended.words)

    shown = ("restic", *repository.shown_flags(), *arguments)
    return Step(shown, frozenset(units), run, loses)


def _make(folder: Path) -> Step:
    """Make the folder for packs that are taken away."""

    def run(_deadline: float) -> str:
        atomic.make_directory(folder, mode=atomic.PRIVATE_FOLDER)
        return ""

    return Step(("mkdir", "-p", "-m", "700", str(folder)), frozenset(), run)


def _move(repository: Repository, pack: str, kept: Path) -> Step:
    """Take a pack away, for versions that can't repair one."""
    path = repository.pack_path(pack)
    if path is None:
        raise ValueError("only a repository on this machine has files")

    def run(_deadline: float) -> str:
        try:
            shutil.move(path, kept / pack)
        except OSError as error:
            raise StorageError(f"can't move {path} to {kept}: {error.strerror}") from error
        return ""

    return Step(("mv", str(path), str(kept / pack)), frozenset({pack}), run, loses_data=True)
