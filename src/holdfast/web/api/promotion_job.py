"""Judges a version in a process of its own: simulates it in this fleet's world and worse ones."""

from collections.abc import AsyncIterator
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from holdfast.control.inference.fits import world_of_fleet
from holdfast.control.policies.aliases import Verdict
from holdfast.control.policies.promotion import episodes_to_run, judge
from holdfast.control.policies.versions import Registry
from holdfast.control.settings.models import ControlSettings
from holdfast.errors import ConflictError, HoldfastError
from holdfast.evidence.codecs import plain
from holdfast.evidence.leaf import Check
from holdfast.processes import start_child
from holdfast.storage.database import open_database
from holdfast.web.api.policies import Version, contest_of
from holdfast.web.context import Context, RequestContext
from holdfast.web.jobs import FAILED, PROGRESS, read_messages
from holdfast.web.services.verdict_cache import Contest
from holdfast.web.sse import RESPONSES, EventResponse, encode_event

router = APIRouter(prefix="/policies", tags=["policies"])

STEPS = 200  # progress events
VERDICT = "verdict"


@router.get(
    "/{version}/judge",
    summary="Judge a version, with the progress and at last the verdict as events",
    response_class=StreamingResponse,
    responses=RESPONSES,
)
def judge_version(context: RequestContext, version: Version) -> EventResponse:
    contest = contest_of(context, version)
    if contest.version == contest.champion:
        raise ConflictError(f"{contest.version[:12]} is the champion already")
    return EventResponse(_stream(context, contest), context.promotion_slots)


async def _stream(context: Context, contest: Contest) -> AsyncIterator[bytes]:
    with start_child(simulate, context.address, context.settings, contest) as child:
        async for name, data in read_messages(child.pipe, context.is_closing):
            content: Any = data
            if name == VERDICT:
                context.verdicts.save(contest, data, context.clock())
                checks = [asdict(check) for check in data.checks]
                content = {**asdict(contest), "passed": data.passed, "checks": checks}
                content["figures"] = data.figures
            elif name == FAILED:  # which counts against the version, if someone forces it
                check = Check("judgement", passed=False, detail=plain(data["reason"]))
                context.verdicts.save(contest, Verdict((check,), {}), context.clock())
            yield encode_event(name, content)


def simulate(sender: Connection, address: str, settings: ControlSettings, contest: Contest) -> None:
    """Judge a version, sending the progress and then the verdict."""
    done = reported = total = 0.0

    def on_progress(simulated: float) -> None:
        nonlocal done, reported
        done += simulated
        if done - reported >= total / STEPS:
            reported = done
            episodes = min(round(done), total)  # the last interval may end after the horizon
            sender.send((PROGRESS, {"episodes": episodes, "of": total}))

    try:
        with open_database(address, read_only=True) as engine:
            version = Registry(engine).serving(contest.version)
            total = episodes_to_run(version, settings.promotion)
            verdict = judge(
                engine,
                contest.version,
                contest.champion,
                world_of_fleet(engine, settings.scenario),
                settings.promotion,
                unit=settings.rails.unit,
                on_progress=on_progress,
            )
        sender.send((VERDICT, verdict))
    except HoldfastError as error:
        sender.send((FAILED, {"reason": str(error)}))
