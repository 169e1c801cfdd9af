"""Puts together the auditor of a service: proofs by nodes, and checks of other storage."""

import secrets
from contextlib import ExitStack
from dataclasses import dataclass

from holdfast.control.audits.check_runner import CheckRunner
from holdfast.control.audits.check_steps import CheckLimits, CheckSteps
from holdfast.control.audits.checked_fleet import CheckedFleet
from holdfast.control.audits.contacts import Contacts
from holdfast.control.audits.dispatcher import Dispatcher
from holdfast.control.audits.open_holdings import HomeFleet
from holdfast.control.audits.runner import AuditRunner
from holdfast.control.incidents.monitor import Clocks
from holdfast.control.scheduling.schedule import Schedule
from holdfast.control.settings.models import ControlSettings, Timeouts

SEED_BYTES = 32


@dataclass(frozen=True)
class Fleets:
    """All holdings of a home, of both families."""

    proven: HomeFleet
    checked: CheckedFleet


def open_auditor(
    stack: ExitStack,
    fleets: Fleets,
    schedule: Schedule,
    contacts: Contacts,
    settings: ControlSettings,
    clocks: Clocks,
    *,
    patience: Timeouts | None = None,
    sample_cap: int | None = None,
) -> Dispatcher:
    """Return an auditor that is closed with the stack.

    `patience` and `sample_cap` replace those of the settings.
    """
    patience = patience or settings.patience
    proofs = AuditRunner(
        fleets.proven,
        schedule.batch,
        contacts,
        sample_cap=sample_cap or settings.rails.sample_cap,
        patience=patience,
        clock=clocks.wall,
        steady=clocks.steady,
        seed=_draw_seed,
        settlement=settings.settlement,
    )
    stack.callback(proofs.close)
    cap = sample_cap or settings.checks.sample_cap
    limits = CheckLimits(settings.checks, patience, settings.rails, cap)
    checks = CheckRunner(
        CheckSteps(fleets.checked, schedule.engine, limits, clocks.wall),
        listing=settings.checks.listing,
        clock=clocks.wall,
        steady=clocks.steady,
        seed=_draw_seed,
    )
    stack.callback(checks.close)
    return Dispatcher(proofs, checks)


def _draw_seed() -> bytes:
    return secrets.token_bytes(SEED_BYTES)
