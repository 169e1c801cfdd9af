"""The service starts a retraining when it is due, hears how it ended, and outlives it."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, insert

from holdfast.control.inference.fits import last_taught
from holdfast.control.inference.retraining import FOLDER, ORDER, Retraining, alone
from holdfast.control.settings.models import RetrainingSettings, read_control
from holdfast.durations import DAY, HOUR
from holdfast.errors import RefusedError
from holdfast.storage.database import transaction
from holdfast.storage.inference_schema import fits

NOW = 100 * DAY
MONTHLY = RetrainingSettings(every=30 * DAY, at_most=HOUR, again=2 * HOUR)
WELL = "pass"
BADLY = "import sys; print('x\\nholdfast: there is no log', file=sys.stderr); sys.exit(2)"
FOR_EVER = "import time; time.sleep(600)"


class Started:
    """Retrainings of a home whose log was last fitted so long ago."""

    def __init__(self, home: Path, script: str, ago: int | None = 31 * DAY) -> None:
        last = None if ago is None else NOW - ago
        self.retraining = Retraining(home, MONTHLY, lambda: last, (sys.executable, "-c", script))

    @property
    def child(self) -> subprocess.Popen[bytes] | None:
        return self.retraining._child

    def ended(self, now: int = NOW) -> str:
        """Wait for the end, as the service does, and return what was heard."""
        for _ in range(600):
            heard = self.retraining.look(now)
            if heard is not None:
                return heard
            time.sleep(0.05)
        raise AssertionError("it did not end")


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Started]:
    started = Started(tmp_path, FOR_EVER)
    assert started.retraining.look(NOW) is None
    assert started.child is not None
    yield started
    started.retraining.stop()


@pytest.mark.parametrize(("ago", "begins"), [(31 * DAY, True), (29 * DAY, False), (None, False)])
def test_it_begins_when_the_log_has_taught_nothing_for_so_long(
    tmp_path: Path, ago: int | None, begins: bool
) -> None:
    started = Started(tmp_path, WELL, ago)
    started.retraining.look(NOW)
    assert (started.child is not None) == begins
    started.retraining.stop()


def test_one_that_was_interrupted_goes_on_whenever_that_was(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / ORDER).touch()
    started = Started(tmp_path, WELL, ago=DAY)
    started.retraining.look(NOW)
    assert started.child is not None
    assert started.ended() == ""


def test_the_last_words_of_a_failure_are_told_and_it_is_not_tried_again_at_once(
    tmp_path: Path,
) -> None:
    started = Started(tmp_path, BADLY)
    assert started.ended() == "there is no log"
    begun = []
    for later in (HOUR, 3 * HOUR):
        started.retraining.look(NOW + later)
        begun.append(started.child is not None)
    assert begun == [False, True]
    started.retraining.stop()


def test_one_that_takes_too_long_is_stopped(sleeper: Started) -> None:
    process = sleeper.child
    assert process is not None
    assert sleeper.retraining.look(NOW + HOUR) is None
    assert sleeper.retraining.look(NOW + HOUR + 1) == "it took too long and was stopped"
    assert process.poll() is not None


def test_a_service_that_stops_takes_its_retraining_with_it(sleeper: Started) -> None:
    process = sleeper.child
    assert process is not None
    sleeper.retraining.stop()
    assert process.poll() is not None
    sleeper.retraining.stop()


def test_without_the_setting_nothing_begins(tmp_path: Path) -> None:
    idle = Retraining(tmp_path, RetrainingSettings(), lambda: 0, (sys.executable, "-c", WELL))
    assert idle.look(NOW) is None
    assert idle._child is None


def test_two_at_a_time_are_refused(tmp_path: Path) -> None:
    with alone(tmp_path), pytest.raises(RefusedError, match="under way"), alone(tmp_path):
        pass
    with alone(tmp_path):
        pass


def test_the_log_teaches_from_the_last_fit_on(engine: Engine) -> None:
    assert last_taught(engine) is None
    with transaction(engine) as connection:
        connection.execute(insert(fits), [{"at": at, "document": "{}"} for at in (5, 9, 7)])
    assert last_taught(engine) == 9


def test_it_is_set_as_a_duration(tmp_path: Path) -> None:
    assert read_control(tmp_path).retraining.every is None
    (tmp_path / "holdfast.toml").write_text('[control.retraining]\nevery = "30 days"\n')
    assert read_control(tmp_path).retraining.every == 30 * DAY


@pytest.mark.slow
def test_serving_needs_nothing_of_what_training_needs() -> None:
    script = (
        "import sys; sys.modules.update(jax=None, optax=None, tensorboardX=None);"
        "import holdfast.control.service, holdfast.control.inference.retraining;"
        "sys.exit('holdfast.learn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
