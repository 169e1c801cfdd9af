"""The policy service: advances each holding's state for one policy version, and decides in batches.

A state belongs to a version. Where it is missing, because it was lost or another version wrote it,
the rails' fail-safe decides, and the state begins anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.control.scheduling.guardrails import Plan, Rails, plan
from holdfast.control.scheduling.telemetry import Telemetry
from holdfast.model.arrays import BoolArray, Float32Array, FloatArray, IntArray
from holdfast.policy.serving import Rows, Serving


@dataclass(frozen=True)
class Remembered:
    """What is stored of holdings' states: which version wrote each, and its bytes."""

    version: Sequence[str]
    memory: Sequence[bytes]


@dataclass(frozen=True)
class Decisions:
    observation: Float32Array  # (batch, signals)
    chosen: IntArray  # by the policy, on the grid of actions
    plan: Plan
    memory: Rows


def decide(
    policy: Serving,
    rails: Rails,
    now: int,
    telemetry: Telemetry,
    remembered: Remembered,
    luck: FloatArray,
    executed: IntArray | None = None,
) -> Decisions:
    """Return what each holding is to do next; a policy's state advances only with news.

    `luck` is what `rails.plan` takes. `executed` are the actions that will be carried out, where
    they are another policy's.
    """
    rows, known = _rows(policy, telemetry, remembered)
    observation = telemetry.observation
    chosen, state = policy.act(rows, observation)
    sound = telemetry.sound(rails, now)
    planned = plan(
        rails,
        now,
        chosen,
        telemetry=sound,
        state=known,
        inside=policy.inside(observation),
        luck=luck,
    )
    memory = policy.executed(state, planned.action if executed is None else executed)
    if not sound.all():
        memory = np.where(sound[:, np.newaxis], memory, rows)
    return Decisions(observation, chosen, planned, memory)


def _rows(policy: Serving, telemetry: Telemetry, remembered: Remembered) -> tuple[Rows, BoolArray]:
    """Return the states to start from, and which holdings had theirs."""
    width, count = policy.row_bytes, len(remembered.version)
    # Nearly always all have theirs, which takes half the time to find out at once.
    ours = remembered.version.count(policy.version)
    if ours == count and not {*map(len, remembered.memory)} - {width}:
        joined = np.frombuffer(b"".join(remembered.memory), np.uint8)
        return joined.reshape(count, width), np.ones(count, np.bool_)
    own = np.fromiter(map(policy.version.__eq__, remembered.version), np.bool_, count)
    own &= np.fromiter(map(len, remembered.memory), np.int64, count) == width
    rows = policy.fresh_rows(count)
    for at in np.flatnonzero(own).tolist():
        rows[at] = np.frombuffer(remembered.memory[at], np.uint8)
    return rows, own | telemetry.unaudited
