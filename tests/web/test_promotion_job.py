"""The judgement of a version in its own process: progress, a verdict, or why there is none."""

from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest
from tests.support.promotion import SETTINGS
from tests.support.simulated_operation import operation

from holdfast.control.policies.aliases import Verdict
from holdfast.control.policies.versions import Registry
from holdfast.control.settings.models import ControlSettings, read_control
from holdfast.evidence.leaf import Check
from holdfast.model.scenario import PAPER
from holdfast.web.api.promotion_job import simulate
from holdfast.web.services.verdict_cache import VALID_FOR, Contest, VerdictCache


@pytest.fixture
def settings(tmp_path: Path) -> ControlSettings:
    (tmp_path / "holdfast.toml").write_text(f"{SETTINGS}ceiling = 0.2\n")
    return read_control(tmp_path)


def messages(address: str, settings: ControlSettings, contest: Contest) -> list[tuple[str, Any]]:
    receiver, sender = Pipe(duplex=False)
    with receiver:
        with sender:
            simulate(sender, address, settings, contest)
        sent = []
        while receiver.poll():
            try:
                sent.append(receiver.recv())
            except EOFError:
                break
        return sent


@pytest.mark.slow
def test_progress_grows_up_to_the_verdict(tmp_path: Path, settings: ControlSettings) -> None:
    running = operation(tmp_path, PAPER, 4, seed=5)
    registry = Registry(running.engine)
    champion, other = (
        registry.register(name, PAPER, 0).version for name in ("fixed-high", "fixed-low")
    )
    *progress, (name, verdict) = messages(
        str(running.engine.url.database), settings, Contest(other, champion)
    )
    assert name == "verdict", verdict
    assert isinstance(verdict, Verdict)
    assert not verdict.passed, "it has not run in shadow"
    assert {kind for kind, _ in progress} == {"progress"}
    episodes = [data["episodes"] for _, data in progress]
    assert episodes == sorted(episodes)
    assert episodes[-1] <= progress[0][1]["of"]


def test_a_version_that_is_gone_gets_a_reason_and_no_verdict(
    tmp_path: Path, settings: ControlSettings
) -> None:
    running = operation(tmp_path, PAPER, 4, seed=5)
    contest = Contest("11" * 32, "22" * 32)
    assert messages(str(running.engine.url.database), settings, contest) == [
        ("failed", {"reason": "there is no version 111111111111 in the registry"})
    ]


def test_a_verdict_counts_for_its_contest_and_for_an_hour() -> None:
    cache, contest = VerdictCache(), Contest("new", "old")
    verdict = Verdict((Check("gas", passed=True, detail="less"),), {})
    cache.save(contest, verdict, 1000)
    assert cache.find(contest, 1000) is verdict
    assert cache.find(contest, 1000 + VALID_FOR - 1) is verdict
    assert cache.find(contest, 1000 + VALID_FOR) is None
    assert cache.find(contest, 999) is None, "the clock was set back"
    assert cache.find(replace(contest, champion="other"), 1000) is None
    cache.save(replace(contest, version="newer"), verdict, 1000 + VALID_FOR)
    assert list(cache._verdicts) == [Contest("newer", "old")], "what expired is dropped"
