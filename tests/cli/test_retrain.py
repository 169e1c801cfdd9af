"""`holdfast policy retrain` as operators run it: on a real log, killed and run again."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.owner_env import PASSPHRASE, QUICK
from tests.support.processes import running
from tests.support.simulated_fleet import START
from tests.support.simulated_operation import operation

from holdfast.cli.app import run
from holdfast.control.inference.fits import latest_fit
from holdfast.control.inference.retraining import FOLDER, ORDER, alone
from holdfast.control.policies.aliases import named_aliases
from holdfast.control.policies.versions import Registry
from holdfast.durations import DAY
from holdfast.model.scenario import PAPER
from holdfast.owner import Home
from holdfast.storage.database import connect, transaction

# The real command, but for few dials and a snapshot after each round.
EAGER = (
    "import sys; from holdfast.learn import feasibility, training, dial_search;"
    "training.SECONDS = 0; training.VALIDATION_EPISODES = 10;"
    "dial_search.FIRST_ROUND, dial_search.REFINEMENTS = (4, 5), ();"
    "feasibility.LEVELS, feasibility.LATENCY_SHARES = 2, (1.0,);"
    "from holdfast.cli.app import main; main(sys.argv[1:])"
)
BUDGET = ("--seeds", "1", "--rounds", "4", "--validation", "5", "--episodes", "10")


@pytest.fixture(autouse=True)
def _same_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the priority of the tests' own process, which can't be raised again."""
    monkeypatch.setattr(os, "nice", lambda _more: 0)


def command(home: Path, *more: str) -> list[str]:
    words = ("policy", "retrain", "--home", str(home), "--rho", "0.99", *BUDGET)
    return [sys.executable, "-c", EAGER, *words, *more]


def ended(home: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(home, *more), capture_output=True, text=True, check=False)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home whose holdings were audited for six weeks."""
    folder = tmp_path / "home"
    Home.create(folder, PASSPHRASE, QUICK)
    (folder / "holdfast.toml").write_text('[control]\nscenario = "paper"\n')
    running = operation(folder, PAPER, 6)
    running.until(START + 42 * DAY)
    running.engine.dispose()
    return folder


@pytest.mark.slow(seconds=20)
def test_killed_and_run_again_it_ends_with_the_same_challenger(home: Path, tmp_path: Path) -> None:
    with running(command(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as killed:
        for _ in range(2400):
            if (home / FOLDER / "seed-0" / "state.safetensors").exists():
                break
            assert killed.poll() is None, killed.communicate()
            time.sleep(0.05)
        killed.kill()
        killed.communicate()
    assert (home / FOLDER / ORDER).exists()
    # Another home has the same order, of which nothing is done yet.
    other = tmp_path / "other"
    shutil.copytree(home, other)
    shutil.rmtree(other / FOLDER / "seed-0")

    versions = []
    for folder in (home, other):
        done = ended(folder, "--json")
        assert (done.returncode, done.stderr.strip()) == (
            0,
            "… resuming the interrupted retraining",
        )
        told = json.loads(done.stdout)
        engine = connect(str(folder / "holdfast.db"))
        with transaction(engine) as connection:
            aliases = named_aliases(connection)
        assert aliases["challenger"].version == told["version"]
        assert aliases["challenger"].name == "retrained-1"
        assert aliases["champion"].name == "drqn-cmdp-plus", "what decides has not changed"
        manifest = Registry(engine).manifest(told["version"])
        assert manifest is not None
        fitted = latest_fit(engine)
        assert fitted is not None
        taught = manifest["training"]["retraining"]
        assert taught["audits"] == fitted.audits > 10
        assert set(taught["parameters"]) >= {"malicious_share", "honest_rate", "malicious_rate"}
        assert manifest["evaluation"]["challenger"] == told["evaluation"]["challenger"]
        engine.dispose()
        assert not list((folder / FOLDER).glob("seed-*")), "nothing is left to go on with"
        assert not (folder / FOLDER / ORDER).exists()
        versions.append(told["version"])
    assert versions[0] == versions[1]


@pytest.mark.slow
def test_one_sentence_says_why_it_could_not_run(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(*words: str) -> str:
        assert run(["policy", "retrain", *words]) == 2
        text = capsys.readouterr().err
        assert text.count("\n") == 1
        return text

    assert "no owner's home" in said("--home", str(home / "nowhere"))
    assert "rho must lie between 0 and 1" in said("--home", str(home), "--rho", "2")
    with alone(home / FOLDER):
        assert "a retraining is under way" in said("--home", str(home))
    monkeypatch.setitem(sys.modules, "jax", None)
    assert "training needs jax: install it" in said("--home", str(home))


def test_there_is_nothing_to_learn_from_a_fleet_that_was_never_audited(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Home.create(tmp_path / "home", PASSPHRASE, QUICK)
    assert run(["policy", "retrain", "--home", str(tmp_path / "home")]) == 2
    assert "no audit has passed or failed yet" in capsys.readouterr().err
