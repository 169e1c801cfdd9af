"""Verifies the whole log in a process of its own, with its progress as events."""

from collections.abc import AsyncIterator
from multiprocessing.connection import Connection
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from holdfast.control.evidence.anchors import home_ledgers
from holdfast.control.evidence.reader import DatabaseLog, read_verifier
from holdfast.errors import HoldfastError
from holdfast.evidence.anchors import OnChain
from holdfast.evidence.verification import verify
from holdfast.processes import start_child
from holdfast.storage.database import open_database
from holdfast.web.context import Context, RequestContext
from holdfast.web.jobs import FAILED, PROGRESS, read_messages
from holdfast.web.sse import RESPONSES, EventResponse, encode_event

router = APIRouter(tags=["evidence"])

STEPS = 200  # progress events in a whole log


@router.get(
    "/evidence/verify",
    summary="Check the whole log, with its progress and at last the report as events",
    response_class=StreamingResponse,
    responses=RESPONSES,
)
async def verify_log(context: RequestContext) -> EventResponse:
    return EventResponse(_stream(context), context.verification_slots)


async def _stream(context: Context) -> AsyncIterator[bytes]:
    with start_child(check, context.address, context.folder) as child:
        async for name, data in read_messages(child.pipe, context.is_closing):
            yield encode_event(name, data)


def check(sender: Connection, address: str, folder: Path) -> None:
    """Verify the log of a home on its own ledger, sending the progress and then the report."""
    try:
        chains, ledger_error = _ledgers(folder)  # before the log is opened: it grows meanwhile
        with open_database(address, read_only=True) as engine:
            log = DatabaseLog(engine, read_verifier(folder))
            every = max(1, log.size // STEPS)

            def on_progress(leaves: int) -> None:
                if leaves % every == 0:
                    sender.send((PROGRESS, {"leaves": leaves, "size": log.size}))

            report = verify(
                log, log.verifier, chains=chains, restored=True, on_progress=on_progress
            )
        sender.send(("report", {**report.facts(), "ledger_error": ledger_error}))
    except HoldfastError as error:
        sender.send((FAILED, {"reason": str(error)}))


def _ledgers(folder: Path) -> tuple[list[OnChain], str | None]:
    """Return the home's ledgers; none, and why, if they can't be read now."""
    try:
        return home_ledgers(folder), None
    except HoldfastError as error:
        return [], str(error)
