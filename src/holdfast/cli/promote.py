"""`holdfast policy promote`: a version judged, and let in if it does well enough."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import terminal
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder
from holdfast.cli.registry import Seed, Version, episode_bar, opened_desk, tell_checks
from holdfast.cli.server import Reason, WorkFailedError, server_of, worked_out
from holdfast.cli.terminal import Json, say
from holdfast.errors import InputError

if TYPE_CHECKING:
    from holdfast.control.policies.aliases import Verdict
    from holdfast.web.client import Server


def promote(
    version: Version = "challenger",
    force: Annotated[
        bool, typer.Option("--force", help="Promote it whatever is found; needs --reason.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the verdict and change nothing.")
    ] = False,
    seed: Seed = None,
    reason: Reason = "",
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> int:
    """Let a version decide from the next decision on, if it keeps the ceiling: else exit 1.

    It must keep the ceiling on the miss rate in simulation, in this fleet's world and in worse
    ones, and do no worse than the champion in shadow. What its manifest claims is measured. The
    table [control.promotion] of holdfast.toml says what is enough. The evidence has the result.

    Example: holdfast policy promote challenger --dry-run
    """
    if force and not reason.strip():
        raise InputError("--force needs --reason: the evidence tells why")
    if seed is not None and not dry_run:
        raise InputError("--seed needs --dry-run: a promotion draws its episodes anew")
    wish = PromotionRequest(version, reason, force=force, dry_run=dry_run, seed=seed)
    server = server_of(home) if seed is None else None
    done = None if server is None else _by_server(server, wish)
    done = done or _here(home, wish)
    if as_json:
        facts = {"version": done.version, "passed": done.verdict.passed}
        checks = [asdict(check) for check in done.verdict.checks]
        facts |= {"promoted": done.promoted, "forced": done.forced, "checks": checks}
        terminal.print_json(facts | {"figures": done.verdict.figures})
    else:
        tell_checks(done.verdict.checks)
        say(_outcome(done, dry_run=dry_run))
    return 0 if done.verdict.passed or done.promoted else 1


@dataclass(frozen=True)
class PromotionRequest:
    version: str
    reason: str
    force: bool
    dry_run: bool
    seed: int | None = None

    def granted(self, verdict: "Verdict") -> bool:
        return not self.dry_run and (verdict.passed or self.force)


@dataclass(frozen=True)
class Done:
    """How a version was judged, and whether it decides now."""

    version: str
    verdict: "Verdict"
    promoted: bool

    @property
    def forced(self) -> bool:
        return self.promoted and not self.verdict.passed


def _by_server(server: "Server", wish: PromotionRequest) -> Done | None:
    """Have the running server judge and promote; nothing if it may not, or does not answer."""
    from holdfast.control.policies.aliases import Verdict  # noqa: PLC0415 - as in other commands
    from holdfast.evidence.leaf import Check  # noqa: PLC0415

    with terminal.progress_bar("simulating", 1.0, of_bytes=False) as bar:
        try:
            told = worked_out(
                server,
                f"policies/{wish.version}/judge",
                "verdict",
                lambda data: bar.reach(data["episodes"] / data["of"]),
            )
        except WorkFailedError as error:
            if not wish.force:
                raise
            found = server.read(dict, f"policies/{wish.version}") or {}
            failed = {"name": "judgement", "passed": False, "detail": str(error)}
            told = {"version": found.get("version", ""), "checks": [failed], "figures": {}}
    if told is None:
        return None
    verdict = Verdict(tuple(Check(**each) for each in told["checks"]), told["figures"])
    promoted = wish.granted(verdict)
    if promoted:
        order = {"reason": wish.reason, "force": wish.force}
        if server.order(f"policies/{told['version']}/promote", **order) is None:
            return None
    return Done(told["version"], verdict, promoted)


def _here(home: Path, wish: PromotionRequest) -> Done:
    from holdfast.control.inference.fits import world_of_fleet  # noqa: PLC0415
    from holdfast.control.policies.aliases import Verdict  # noqa: PLC0415 - as above
    from holdfast.control.policies.aliases import promote as let_in  # noqa: PLC0415
    from holdfast.control.policies.promotion import judge  # noqa: PLC0415
    from holdfast.evidence.codecs import plain  # noqa: PLC0415
    from holdfast.evidence.leaf import Check  # noqa: PLC0415

    with (
        opened_desk(home, read_only=wish.dry_run) as desk,
        episode_bar(desk, wish.version) as progress,
    ):
        found, champion = desk.find(wish.version), desk.champion()
        if found == champion:
            raise InputError(f"{found[:12]} is the champion already")
        world = world_of_fleet(desk.engine, desk.settings.scenario)
        conditions, unit = desk.settings.promotion, desk.settings.rails.unit
        desk.registry.serving(found)  # nothing lets in what is not what was registered
        try:
            verdict = judge(
                desk.engine,
                found,
                champion,
                world,
                conditions,
                unit=unit,
                seed=wish.seed,
                on_progress=progress,
            )
        except InputError as error:
            if not wish.force:
                raise
            verdict = Verdict((Check("judgement", passed=False, detail=plain(str(error))),), {})
        done = Done(found, verdict, wish.granted(verdict))
        if done.promoted:
            author = desk.author(wish.reason)
            let_in(desk.engine, desk.aliases, found, author, verdict, forced=done.forced)
    return done


def _outcome(done: Done, *, dry_run: bool) -> str:
    if done.promoted:
        return f"{done.version[:12]} decides from the next decision on"
    if dry_run:
        return f"{done.version[:12]} would {'' if done.verdict.passed else 'not '}be promoted"
    return f"{done.version[:12]} is NOT promoted; --force --reason TEXT does it all the same"
