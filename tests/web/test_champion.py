"""Simulations beside the pages are of the policy that decides, and begin anew with another."""

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, update
from tests.support.checkpoints import ARCHITECTURE, MANIFEST, random_weights

from holdfast.control.policies.aliases import Author, promote, read_aliases
from holdfast.control.policies.versions import Registry
from holdfast.control.settings.models import ControlSettings
from holdfast.model.scenario import FIELD, PAPER
from holdfast.policy.checkpoint import save
from holdfast.policy.serving import load_serving
from holdfast.storage.database import connect, migrate, transaction
from holdfast.storage.schema import versions
from holdfast.web.services.baselines import RULES, Baselines
from holdfast.web.services.champion import ChampionLookup, Decider
from holdfast.web.services.dial_sweep import DialSweep

SOON = replace(PAPER, horizon=20)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = connect(str(tmp_path / "holdfast.db"))
    migrate(engine)
    return engine


def decide_by(engine: Engine, version: str) -> None:
    with transaction(engine) as connection:
        before = read_aliases(connection)
    promote(engine, before, version, Author("a test", 1))


def champion(engine: Engine) -> str | None:
    with transaction(engine) as connection:
        return read_aliases(connection).champion


def waited(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it does not come")


@pytest.mark.slow
def test_it_is_the_champion_whoever_that_is(engine: Engine, tmp_path: Path) -> None:
    settings = ControlSettings(policy="drqn-cmdp-plus", scenario=FIELD)
    lookup = ChampionLookup(engine, tmp_path, settings)
    assert lookup.find(champion(engine)) == Decider("drqn-cmdp-plus", "drqn-cmdp-plus"), (
        "before the first"
    )
    save(tmp_path / "run", MANIFEST, random_weights(ARCHITECTURE))
    registry = Registry(engine)
    learned = registry.register(str(tmp_path / "run"), FIELD, 1, known_as="retrained-1")
    shutil.rmtree(tmp_path / "run")
    decide_by(engine, learned.version)
    label, name = lookup.find(champion(engine))
    assert label == "retrained-1"
    assert load_serving(name, FIELD).version == learned.version
    decide_by(engine, registry.register("fixed-high", FIELD, 2).version)
    assert lookup.find(champion(engine)) == Decider("fixed-high", "fixed-high")


def test_one_that_was_tampered_with_is_not_simulated(engine: Engine, tmp_path: Path) -> None:
    settings = ControlSettings(policy="fixed-low", scenario=FIELD)
    decide_by(engine, Registry(engine).register("drqn-cmdp-plus", FIELD, 1).version)
    with transaction(engine) as connection:
        connection.execute(update(versions).values(weights=b"other"))
    lookup = ChampionLookup(engine, tmp_path, settings)
    assert lookup.find(champion(engine)).name == "fixed-low"


@pytest.mark.slow
def test_the_rules_are_simulated_anew_beside_another_champion() -> None:
    mine, another = Decider("mine", "constant:7,0.10"), Decider("another", "constant:1,0.20")
    baselines = Baselines(SOON)
    assert not baselines.compare(mine).ready
    waited(lambda: baselines.compare(mine).ready)
    first = baselines.compare(mine).policies
    assert [costs.policy for costs in first] == ["mine", *RULES]
    assert not baselines.compare(another).ready
    waited(lambda: baselines.compare(another).ready)
    then = baselines.compare(another).policies
    assert then[0].policy == "another"
    assert (then[0].gas.value or 0) > (first[0].gas.value or 0)
    assert then[1:] == first[1:]


@pytest.mark.slow
def test_a_dial_is_tried_whole_and_one_without_gives_way_to_the_settings(tmp_path: Path) -> None:
    save(tmp_path, MANIFEST, random_weights(ARCHITECTURE))
    decider = Decider("mine", "fixed-low")
    sweep = DialSweep(str(tmp_path), SOON)
    waited(lambda: sweep.progress(decider).ready)
    assert sweep.progress(decider).tried[0].policy.startswith(str(tmp_path))
