"""A version judged while you watch: simulated in this fleet's world and worse ones, apart."""

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
from holdfast.errors import HoldfastError
from holdfast.evidence.codecs import plain
from holdfast.evidence.leaf import Check
from holdfast.storage.database import opened
from holdfast.web.api.policies import Version, case_of
from holdfast.web.context import Context, RequestContext
from holdfast.web.errors import Code, WebRefusedError
from holdfast.web.jobs import PROGRESS, apart, words
from holdfast.web.services.verdict_cache import Case
from holdfast.web.sse import ANSWER, EventResponse, event

router = APIRouter(prefix="/policies", tags=["policies"])

STEPS = 200  # signs of progress
VERDICT, FAILED = "verdict", "failed"


@router.get(
    "/{version}/judge",
    summary="Judge a version, with the progress and at last the verdict as events",
    response_class=StreamingResponse,
    responses=ANSWER,
)
def judging(desk: RequestContext, version: Version) -> EventResponse:
    case = case_of(desk, version)
    if case.version == case.champion:
        message = f"{case.version[:12]} is the champion already"
        raise WebRefusedError(Code.CONFLICT, message)
    return EventResponse(_stream(desk, case), desk.judges)


async def _stream(desk: Context, case: Case) -> AsyncIterator[bytes]:
    address = desk.settings.address(desk.folder)
    with apart(try_out, address, desk.settings, case) as receiver:
        async for name, data in words(receiver, desk.closing):
            told: Any = data
            if name == VERDICT:
                desk.verdicts.keep(case, data, desk.clock())
                checks = [asdict(check) for check in data.checks]
                told = {**asdict(case), "passed": data.passed, "checks": checks}
                told["figures"] = data.figures
            elif name == FAILED:  # which speaks against it, if someone forces it
                check = Check("judgement", passed=False, detail=plain(data["reason"]))
                desk.verdicts.keep(case, Verdict((check,), {}), desk.clock())
            yield event(name, told)


def try_out(sender: Connection, address: str, settings: ControlSettings, case: Case) -> None:
    """Judge a version, telling how far that has come; then tell the verdict."""
    done = told = total = 0.0

    def reach(episodes: float) -> None:
        nonlocal done, told
        done += episodes
        if done - told >= total / STEPS:
            told = done
            sender.send((PROGRESS, {"episodes": round(done), "of": total}))

    try:
        with opened(address, read_only=True) as engine:
            version = Registry(engine).serving(case.version)
            total = episodes_to_run(version, settings.promotion)
            verdict = judge(
                engine,
                case.version,
                case.champion,
                world_of_fleet(engine, settings.scenario),
                settings.promotion,
                unit=settings.rails.unit,
                progress=reach,
            )
        sender.send((VERDICT, verdict))
    except HoldfastError as error:
        sender.send((FAILED, {"reason": str(error)}))
