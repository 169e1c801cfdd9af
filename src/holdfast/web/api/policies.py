"""Policies: versions and their aliases, the challenger beside the champion, and who decides."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import Field

from holdfast.control.policies import aliases
from holdfast.control.policies.aliases import (
    Aliases,
    Entry,
    Named,
    Verdict,
    named_aliases,
    read_aliases,
)
from holdfast.control.policies.comparison import Comparison, compare
from holdfast.control.policies.versions import Registry
from holdfast.errors import InputError
from holdfast.evidence.leaf import Check
from holdfast.storage.database import transaction
from holdfast.web.auth import Admin
from holdfast.web.commands import CommandRequest, Done, carried_out
from holdfast.web.context import Context, RequestContext
from holdfast.web.errors import Code, WebRefusedError
from holdfast.web.pagination import Limit
from holdfast.web.services.verdict_cache import Case

router = APIRouter(prefix="/policies", tags=["policies"])

Version = Annotated[
    str,
    Path(
        pattern="^([0-9a-f]{4,64}|champion|challenger|previous)$",
        description="An alias, or the beginning of a hash.",
    ),
]


@dataclass(frozen=True)
class VersionTold:
    version: str
    name: str
    registered: int
    learned: bool
    aliases: list[str]


@dataclass(frozen=True)
class Policies:
    aliases: dict[str, Named]
    versions: list[VersionTold]


@dataclass(frozen=True)
class Shadow:
    version: str
    champion: str
    comparison: Comparison | None  # none while it has not decided beside the champion


@dataclass(frozen=True)
class VersionShown:
    """A version after it was checked against its hash."""

    version: str
    name: str
    aliases: list[str]
    rho: float | None  # the miss rate that it was made for
    manifest: dict[str, Any] | None  # of a learned one


class Promotion(CommandRequest):
    """A promotion that is asked for; by force it needs a reason, and no verdict in its favour."""

    force: Annotated[bool, Field(description="Whatever the verdict is.")] = False


@router.get("", summary="Versions and their aliases, the newest first")
def listing(desk: RequestContext) -> Policies:
    registry, known = Registry(desk.reader), current(desk)
    versions = [
        VersionTold(
            each.version, each.name, each.registered, each.learned, list(known.of(each.version))
        )
        for each in registry.listing()
    ]
    return Policies(named_aliases(desk.reader), versions)


@router.get("/history", summary="Promotions and rollbacks, the newest first")
def history(desk: RequestContext, limit: Limit = 50) -> list[Entry]:
    return aliases.history(desk.reader, limit)


@router.get("/{version}", summary="One version, checked against its hash")
def shown(desk: RequestContext, version: Version) -> VersionShown:
    registry, known = Registry(desk.reader), current(desk)
    found = registry.serving(_found(desk, version, known))
    manifest, names = registry.manifest(found.version), list(known.of(found.version))
    return VersionShown(found.version, found.name, names, found.rho, manifest)


@router.get("/{version}/shadow", summary="A version in shadow beside the champion")
def shadow(desk: RequestContext, version: Version) -> Shadow:
    case, unit = case_of(desk, version), desk.settings.rails.unit
    beside = compare(desk.reader, case.version, case.champion, unit=unit)
    return Shadow(case.version, case.champion, beside)


@router.post("/{version}/promote", summary="Let a version decide from the next decision on")
def promote(desk: RequestContext, admin: Admin, version: Version, order: Promotion) -> Done:
    case, author = case_of(desk, version), admin.author(desk, order.reason)
    verdict = desk.verdicts.of(case, author.at)
    if order.force and not order.reason.strip():
        raise WebRefusedError(Code.MALFORMED, "force needs a reason: the evidence tells why")
    if verdict is None and not order.force:
        raise WebRefusedError(Code.CONFLICT, "it has not been judged in the last hour: do so first")
    if verdict is None:
        verdict = Verdict((Check("judgement", passed=False, detail="it was not judged"),), {})
    if not verdict.passed and not order.force:
        raise WebRefusedError(Code.CONFLICT, "the verdict is against it: see its checks")
    with carried_out():
        Registry(desk.reader).serving(case.version)  # or it is not what was registered
        forced = not verdict.passed
        aliases.promote(desk.writer, current(desk), case.version, author, verdict, forced=forced)
    return Done(f"{case.version[:12]} decides from the next decision on", case.version)


@router.post("/rollback", summary="Let the version before the champion decide again")
def rollback(desk: RequestContext, admin: Admin, order: CommandRequest) -> Done:
    known = current(desk)
    with carried_out():
        found = Registry(desk.reader).serving(Registry(desk.reader).find("previous", known))
        aliases.rollback(desk.writer, known, admin.author(desk, order.reason))
    return Done(f"{found.name} ({found.version[:12]}) decides again", found.version)


@router.post("/{version}/challenge", summary="Let a version run in shadow")
def challenge(desk: RequestContext, admin: Admin, version: Version, order: CommandRequest) -> Done:
    known = current(desk)
    found = _found(desk, version, known)
    with carried_out():
        name = Registry(desk.reader).serving(found).name
        aliases.challenge(desk.writer, known, found, admin.author(desk, order.reason))
    return Done(f"{name} runs in shadow", found)


@router.post("/withdraw", summary="Let the challenger run in shadow no more")
def withdraw(desk: RequestContext, admin: Admin, order: CommandRequest) -> Done:
    with carried_out():
        aliases.withdraw(desk.writer, current(desk), admin.author(desk, order.reason))
    return Done("there is no challenger any more")


def current(desk: Context) -> Aliases:
    with transaction(desk.reader) as connection:
        return read_aliases(connection)


def case_of(desk: Context, version: str) -> Case:
    known = current(desk)
    return Case(_found(desk, version, known), _found(desk, "champion", known))


def _found(desk: Context, version: str, known: Aliases) -> str:
    try:
        return Registry(desk.reader).find(version, known)
    except InputError as error:
        raise WebRefusedError(Code.NOT_FOUND, str(error)) from error
