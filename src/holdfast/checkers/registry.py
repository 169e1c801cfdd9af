"""The kinds of checkers that are installed, ours and those of other packages, by their names."""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from holdfast.checkers.interface import Checker, Place
from holdfast.checkers.secret_options import refuse_secrets
from holdfast.errors import InputError

GROUP = "holdfast.auditors"

# Ours need no entry point, and no other package can take their names.
BUILT_IN = {
    "borg": "holdfast.checkers.borg:BorgChecker",
    "command": "holdfast.checkers.command:CommandChecker",
    "manifest": "holdfast.checkers.manifest:ManifestChecker",
    "names": "holdfast.checkers.hash_names:NamesChecker",
    "rclone": "holdfast.checkers.rclone:RcloneChecker",
    "restic": "holdfast.checkers.restic:ResticChecker",
}

Factory = Callable[[Place], Checker]


def kinds() -> list[str]:
    """Return the names of all kinds that are installed."""
    return sorted({*BUILT_IN, *(point.name for point in entry_points(group=GROUP))})


def open_checker(kind: str, place: Place) -> Checker:
    """Return a checker of that kind for that place; one that holds a secret is refused."""
    refuse_secrets(place)
    return _factory(kind)(place)


def _factory(kind: str) -> Factory:
    if kind in BUILT_IN:
        module, _, name = BUILT_IN[kind].partition(":")
        ours: Factory = getattr(import_module(module), name)
        return ours
    points = entry_points(group=GROUP, name=kind)
    if not points:
        raise InputError(
            f"there is no auditor {kind!r}: installed are {', '.join(kinds())}. A package of its "
            "own may offer it"
        )
    if len({point.value for point in points}) > 1:
        offers = ", ".join(sorted(map(_package, points)))
        raise InputError(f"several packages offer an auditor {kind!r}: {offers}. Uninstall one")
    point = next(iter(points))
    try:
        factory: Factory = point.load()
    except Exception as error:
        raise InputError(
            f"the auditor {kind!r} of {_package(point)} can't be loaded: {error}"
        ) from error
    return factory


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value
