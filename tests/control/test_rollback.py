"""A promotion and a rollback under load: they hold from the next decision on, and nothing is lost.

The service, its database, the local ledger and the node are real, and so are the processes.
"""

import random
import time
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select
from tests.support.killed_workers import (
    HOLDINGS,
    WORKERS,
    Crew,
    _enrolled,
    check_everything,
    settings,
    wait_for_audits,
)
from tests.support.live_service import site

from holdfast.control.policies.aliases import (
    Aliases,
    Author,
    challenge,
    promote,
    read_aliases,
    rollback,
)
from holdfast.control.policies.versions import Registry
from holdfast.control.scheduling.schedule import Schedule
from holdfast.control.service import milliseconds
from holdfast.evidence import leaf
from holdfast.model.scenario import FIELD
from holdfast.storage.database import connect, transaction
from holdfast.storage.schema import holdings, leaves, shadow_sums

TURNS = 3


def aliases(engine: Engine) -> Aliases:
    with transaction(engine) as connection:
        return read_aliases(connection)


def author() -> Author:
    return Author("tester", milliseconds(), "a drill")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_under_load_each_change_holds_from_the_next_decision_on(
    address: str, tmp_path: Path
) -> None:
    luck = random.Random(3)
    with site(tmp_path, settings(address)) as place:
        for number in range(HOLDINGS):
            place.holding(f"holding-{number}", luck.randbytes(3000 + number))
        engine = connect(place.settings.address(place.home.folder))
        schedule = Schedule(engine)
        crew = Crew(place, schedule)
        changes: list[tuple[str, int]] = []  # who decides, and when that had been written
        try:
            for _ in range(WORKERS):
                crew.start()
            while len(_enrolled(schedule)) < HOLDINGS:
                time.sleep(0.02)
            wait_for_audits(schedule, 1)
            first = str(aliases(engine).champion)
            other = Registry(engine).register("two-speed", FIELD, milliseconds()).version
            challenge(engine, aliases(engine), other, author())
            wait_for_audits(schedule, 2)
            for _ in range(TURNS):
                promote(engine, aliases(engine), other, author())
                changes.append((other, milliseconds()))
                wait_for_audits(schedule, 2)
                rollback(engine, aliases(engine), author())
                changes.append((first, milliseconds()))
                wait_for_audits(schedule, 2)
        finally:
            crew.kill_all()
        with place.service() as service:
            while service.sequencer.sequence():
                pass
        check_everything(place, schedule)
        with transaction(engine) as connection:
            bodies = connection.execute(select(leaves.c.body).order_by(leaves.c.id)).scalars().all()
            total = func.sum(shadow_sums.c.decisions)
            by_version = shadow_sums.c.holding, shadow_sums.c.version
            beside = connection.execute(
                select(total, holdings.c.number)
                .join(holdings, holdings.c.id == shadow_sums.c.holding)
                .group_by(*by_version, holdings.c.number)
            ).all()
        engine.dispose()
    assert all(times <= number + 1 for times, number in beside), "a decision has one shadow"
    told = [leaf.decode(body) for body in bodies]
    check_deciders(told, changes)
    audited = [each for each in told if isinstance(each, leaf.Audit)]
    rails = {each.rail for audit in audited for each in audit.decision.overrides}
    assert "state" not in rails, "whoever took over had its states"


def check_deciders(told: list[leaf.Leaf], changes: list[tuple[str, int]]) -> None:
    """Whatever is decided after a change, and written before the next, is by the new champion.

    A decision is written together with the audit before the one it is about.
    """
    places = [at for at, each in enumerate(told) if isinstance(each, leaf.PolicyChange)]
    ends = [*places[-len(changes) + 1 :], len(told)]
    audited = {
        (each.holding.id, each.number): (at, each)
        for at, each in enumerate(told)
        if isinstance(each, leaf.Audit)
    }
    for (version, since), end in zip(changes, ends, strict=True):
        deciders = set()
        for (holding, number), (at, _) in audited.items():
            _, following = audited.get((holding, number + 1), (at, None))
            if following is not None and at < end and following.decision.at > since:
                assert following.decision.chosen is not None
                deciders.add(following.decision.chosen.policy.hash.hex())
        assert deciders == {version}
