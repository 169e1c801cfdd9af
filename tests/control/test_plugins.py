"""The service runs a policy of somebody else in shadow only, and only where the settings say so."""

from pathlib import Path

import pytest
from tests.support.simulated_fleet import START
from tests.support.simulated_operation import Operation, operation

from holdfast.control.policies.active import PolicyLoader
from holdfast.control.policies.aliases import (
    Aliases,
    Author,
    Verdict,
    challenge,
    promote,
    read_aliases,
)
from holdfast.control.policies.versions import Registry
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.settings.models import read_control
from holdfast.durations import DAY
from holdfast.errors import InputError, MalformedError
from holdfast.model.scenario import PAPER
from holdfast.storage.database import transaction

SOURCE = """
import numpy as np

open({mark!r}, "a").close()

class Weekly:
    def initial_state(self, batch):
        return np.zeros(batch, np.int64)
    def act(self, state, observations):
        return np.full(len(observations), 17), state + 1
"""


def started(folder: Path) -> tuple[Operation, str, Path]:
    """Return a running fleet, the name of a plug-in, and the file that shows whether it ran."""
    file, mark = folder / "mine.py", folder / "ran"
    file.write_text(SOURCE.format(mark=str(mark)))
    (folder / "fleet").mkdir()
    running = operation(folder / "fleet", PAPER, 2, seed=5, rails=Rails())
    return running, f"{file}:Weekly", mark


def aliases(running: Operation) -> Aliases:
    with transaction(running.engine) as connection:
        return read_aliases(connection)


def author(running: Operation) -> Author:
    return Author("tester", running.clock.now, "a test")


@pytest.mark.slow
def test_a_plug_in_is_not_run_unless_the_settings_allow_it(tmp_path: Path) -> None:
    running, name, mark = started(tmp_path)
    with pytest.raises(InputError, match="allow_plugins = true in"):
        Registry(running.engine).register(name, PAPER, running.clock.now)
    assert not mark.exists()
    allowing = Registry(running.engine, with_plugins=True)
    version = allowing.register(name, PAPER, running.clock.now).version
    challenge(running.engine, aliases(running), version, author(running))
    mark.unlink()
    active = PolicyLoader(running.engine).now()
    assert active.shadows == ()
    assert active.trouble is not None
    assert "is a plug-in" in active.trouble
    assert not mark.exists(), "what the registry holds is not run either"
    running.until(START + 10 * DAY)
    assert not mark.exists()


@pytest.mark.slow
def test_where_they_allow_it_a_plug_in_runs_in_shadow_and_never_decides(tmp_path: Path) -> None:
    running, name, mark = started(tmp_path)
    allowing = Registry(running.engine, with_plugins=True)
    version = allowing.register(name, PAPER, running.clock.now).version
    challenge(running.engine, aliases(running), version, author(running))
    loader = PolicyLoader(running.engine, with_plugins=True)
    (shadow,) = loader.now().shadows
    assert shadow.version == version
    promote(running.engine, aliases(running), version, author(running), Verdict((), {}))
    with pytest.raises(MalformedError, match="it can run in shadow only"):
        loader.now()
    with pytest.raises(MalformedError, match="it can run in shadow only"):
        PolicyLoader(running.engine, with_plugins=True).now()
    assert mark.exists()


def test_a_plug_in_that_was_changed_is_refused(tmp_path: Path) -> None:
    running, name, _ = started(tmp_path)
    allowing = Registry(running.engine, with_plugins=True)
    version = allowing.register(name, PAPER, running.clock.now).version
    with (tmp_path / "mine.py").open("a") as file:
        file.write("# changed\n")
    with pytest.raises(MalformedError, match="what the registry holds has the hash"):
        allowing.serving(version)


def test_plug_ins_are_off_by_default(tmp_path: Path) -> None:
    assert not read_control(tmp_path).allow_plugins
    (tmp_path / "holdfast.toml").write_text("[control]\nallow_plugins = true\n")
    assert read_control(tmp_path).allow_plugins
