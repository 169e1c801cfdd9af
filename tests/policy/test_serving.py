"""Policies as operation serves them: versions, envelopes, and states that survive storage."""

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pytest

from holdfast.errors import InputError
from holdfast.model.observation import OBSERVATION
from holdfast.model.scenario import DRIFT, PAPER
from holdfast.policy.serving import Serving, load_serving
from holdfast.sim.evaluation import evaluate

NAMES = ("fixed-high", "heuristic", "bayesian", "drqn-cmdp", "drqn-cmdp-plus", "belief:rho=0.1")


class ThroughBytes:
    """A policy whose state is stored as bytes after each decision, as a database would."""

    privileged: ClassVar[Literal[False]] = False

    def __init__(self, served: Serving) -> None:
        self.served = served

    def initial_state(self, batch: int) -> np.ndarray:
        return self.served.fresh_rows(batch)

    def act(self, rows: np.ndarray, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        stored = [bytes(row) for row in rows]
        again = np.frombuffer(b"".join(stored), np.uint8).reshape(len(stored), -1)
        actions, state = self.served.act(again, observations)
        return actions, self.served.replace_actions(state, actions)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_state_that_was_stored_decides_as_one_that_was_not(name: str) -> None:
    served = load_serving(name, PAPER)
    stored, direct = (
        evaluate(policy, PAPER, episodes=20, seed=3)
        for policy in (ThroughBytes(served), served.policy)
    )
    assert np.array_equal(stored.gas, direct.gas)
    assert np.array_equal(stored.detections, direct.detections)


def test_a_rule_knows_no_envelope_and_a_network_does() -> None:
    observations = np.full((2, len(OBSERVATION)), 0.5)
    observations[1, OBSERVATION.index("latency")] = 0.999
    assert load_serving("heuristic", PAPER).in_envelope(observations).tolist() == [True, True]
    assert load_serving("drqn-cmdp-plus", PAPER).in_envelope(observations).tolist() == [True, False]


@pytest.mark.parametrize(
    "other",
    [
        lambda: load_serving("drqn-cmdp-plus:rho=0.1", PAPER),
        lambda: load_serving("drqn-cmdp-plus@drift", PAPER),
        lambda: load_serving("drqn-cmdp", PAPER),
        lambda: load_serving("bayesian", PAPER),
    ],
)
def test_what_decides_differently_has_another_version(other: Callable[[], Serving]) -> None:
    version = load_serving("drqn-cmdp-plus", PAPER).version
    assert len(version) == 64
    assert load_serving("drqn-cmdp-plus", PAPER).version == version
    assert other().version != version


def test_the_world_a_rule_was_made_for_is_part_of_its_version() -> None:
    assert load_serving("bayesian", PAPER).version != load_serving("bayesian", DRIFT).version


def test_where_a_checkpoint_lies_is_no_part_of_its_version(tmp_path: Path) -> None:
    from holdfast.policy.shipped import shipped_folder  # noqa: PLC0415

    copy = tmp_path / "copy"
    copy.mkdir()
    for file in shipped_folder("drqn-cmdp", "paper").iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    assert load_serving(str(copy), PAPER).version == load_serving("drqn-cmdp", PAPER).version


@pytest.mark.slow
@pytest.mark.parametrize("name", ["oracle", "clairvoyant:rho=0.05"])
def test_a_policy_that_knows_too_much_is_not_served(name: str) -> None:
    with pytest.raises(InputError, match="needs hidden state"):
        load_serving(name, PAPER)


def test_a_restricted_envelope_holds_what_both_hold() -> None:
    served = load_serving("heuristic", PAPER)
    narrow = dict.fromkeys(OBSERVATION, (0.0, 1.0)) | {"latency": (0.2, 0.6)}
    restricted = served.restrict_envelope(narrow)
    observations = np.full((3, len(OBSERVATION)), 0.5)
    observations[:, OBSERVATION.index("latency")] = (0.1, 0.5, 0.7)
    assert restricted.in_envelope(observations).tolist() == [False, True, False]
    wide = dict.fromkeys(OBSERVATION, (-1.0, 2.0))
    again = restricted.restrict_envelope(wide)
    assert again.in_envelope(observations).tolist() == [False, True, False]
