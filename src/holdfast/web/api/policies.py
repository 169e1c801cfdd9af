"""Policies: versions and their aliases, the challenger beside the champion, and promotions."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import Field

from holdfast.control.policies import aliases
from holdfast.control.policies.aliases import Aliases, Entry, Verdict, read_aliases
from holdfast.control.policies.comparison import Comparison, compare
from holdfast.control.policies.versions import Registry
from holdfast.control.queries.policies import Policies, list_policies
from holdfast.errors import ConflictError
from holdfast.evidence.leaf import Check
from holdfast.web.auth import Admin
from holdfast.web.commands import CommandRequest, Done
from holdfast.web.context import Context, RequestContext
from holdfast.web.errors import Code, WebRefusedError
from holdfast.web.pagination import Limit
from holdfast.web.services.verdict_cache import Contest

router = APIRouter(prefix="/policies", tags=["policies"])

Version = Annotated[
    str,
    Path(
        pattern="^([0-9a-f]{4,64}|champion|challenger|previous)$",
        description="An alias, or the beginning of a hash.",
    ),
]


@dataclass(frozen=True)
class Shadow:
    version: str
    champion: str
    comparison: Comparison | None  # none while it has not decided beside the champion


@dataclass(frozen=True)
class VersionDetail:
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
def get_policies(context: RequestContext) -> Policies:
    with context.read() as connection:
        return list_policies(connection)


@router.get("/history", summary="Promotions and rollbacks, the newest first")
def get_history(context: RequestContext, limit: Limit = 50) -> list[Entry]:
    with context.read() as connection:
        return aliases.history(connection, limit)


@router.get("/{version}", summary="One version, checked against its hash")
def get_version(context: RequestContext, version: Version) -> VersionDetail:
    registry, known = Registry(context.reader), current_aliases(context)
    policy = registry.serving(registry.find(version, known))
    manifest, names = registry.manifest(policy.version), list(known.of(policy.version))
    return VersionDetail(policy.version, policy.name, names, policy.rho, manifest)


@router.get("/{version}/shadow", summary="A version in shadow beside the champion")
def get_shadow(context: RequestContext, version: Version) -> Shadow:
    contest, unit = contest_of(context, version), context.settings.rails.unit
    with context.read() as connection:
        comparison = compare(connection, contest.version, contest.champion, unit=unit)
    return Shadow(contest.version, contest.champion, comparison)


@router.post("/{version}/promote", summary="Let a version decide from the next decision on")
def promote(context: RequestContext, admin: Admin, version: Version, command: Promotion) -> Done:
    contest, author = contest_of(context, version), admin.author(context, command.reason)
    verdict = context.verdicts.find(contest, author.at)
    if command.force and not command.reason.strip():
        raise WebRefusedError(Code.MALFORMED, "force needs a reason, for the evidence")
    if verdict is None and not command.force:
        raise ConflictError("it has not been judged in the last hour: judge it first")
    if verdict is None:
        verdict = Verdict((Check("judgement", passed=False, detail="it was not judged"),), {})
    if not verdict.passed and not command.force:
        raise ConflictError("the verdict is against it: see its checks")
    Registry(context.reader).serving(contest.version)  # or it is not what was registered
    known, forced = current_aliases(context), not verdict.passed
    aliases.promote(context.writer, known, contest.version, author, verdict, forced=forced)
    return Done(f"{contest.version[:12]} decides from the next decision on", contest.version)


@router.post("/rollback", summary="Let the version before the champion decide again")
def rollback(context: RequestContext, admin: Admin, command: CommandRequest) -> Done:
    known, registry = current_aliases(context), Registry(context.reader)
    version = known.previous or ""
    name = registry.serving(version).name if version else ""  # or it is not what was registered
    aliases.rollback(context.writer, known, admin.author(context, command.reason))
    return Done(f"{name} ({version[:12]}) decides again", version)


@router.post("/{version}/challenge", summary="Let a version run in shadow")
def challenge(
    context: RequestContext, admin: Admin, version: Version, command: CommandRequest
) -> Done:
    known, registry = current_aliases(context), Registry(context.reader)
    policy = registry.serving(registry.find(version, known))
    author = admin.author(context, command.reason)
    aliases.challenge(context.writer, known, policy.version, author)
    return Done(f"{policy.name} runs in shadow", policy.version)


@router.post("/withdraw", summary="Let the challenger run in shadow no more")
def withdraw(context: RequestContext, admin: Admin, command: CommandRequest) -> Done:
    author = admin.author(context, command.reason)
    aliases.withdraw(context.writer, current_aliases(context), author)
    return Done("there is no challenger any more")


def current_aliases(context: Context) -> Aliases:
    with context.read() as connection:
        return read_aliases(connection)


def contest_of(context: Context, version: str) -> Contest:
    """Return the version that is meant, against the champion."""
    known, registry = current_aliases(context), Registry(context.reader)
    return Contest(registry.find(version, known), registry.find("champion", known))
