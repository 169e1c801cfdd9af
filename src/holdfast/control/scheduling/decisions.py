"""Decides in batches: a policy version advances its state for each holding and chooses an action.

A state belongs to a version. Where it is missing, because it was lost or another version wrote it,
the fail-safe decides, and the version starts with a new state.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.control.scheduling.guardrails import Plan, Rails, plan
from holdfast.control.scheduling.telemetry import Telemetry
from holdfast.model.arrays import BoolArray, Float32Array, FloatArray, IntArray
from holdfast.policy.serving import Rows, Serving


@dataclass(frozen=True)
class StoredMemory:
    """The stored states of holdings: the version that wrote each, and its bytes."""

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
    stored: StoredMemory,
    uniforms: FloatArray,
    executed: IntArray | None = None,
    within: IntArray | None = None,
) -> Decisions:
    """Return the next audit of each holding; a policy's state advances only with news.

    `uniforms` and `within` are what `guardrails.plan` takes. `executed` are the actions that will
    be carried out, if another policy chose them.
    """
    rows, known = _rows(policy, telemetry, stored)
    observation = telemetry.observation
    chosen, state = policy.act(rows, observation)
    sound = telemetry.sound(rails, now)
    planned = plan(
        rails,
        now,
        chosen,
        telemetry=sound,
        state=known,
        inside=policy.in_envelope(observation),
        new=telemetry.unaudited & sound,
        recovering=telemetry.recovering(rails),
        uniforms=uniforms,
        within=within,
    )
    memory = policy.replace_actions(state, planned.action if executed is None else executed)
    if not sound.all():
        memory = np.where(sound[:, np.newaxis], memory, rows)
    return Decisions(observation, chosen, planned, memory)


def _rows(policy: Serving, telemetry: Telemetry, stored: StoredMemory) -> tuple[Rows, BoolArray]:
    """Return the states to start from, and which holdings had theirs."""
    width, count = policy.row_bytes, len(stored.version)
    # Nearly always all have theirs, and checking that first halves the time.
    ours = stored.version.count(policy.version)
    if ours == count and not {*map(len, stored.memory)} - {width}:
        joined = np.frombuffer(b"".join(stored.memory), np.uint8)
        return joined.reshape(count, width), np.ones(count, np.bool_)
    own = np.fromiter(map(policy.version.__eq__, stored.version), np.bool_, count)
    own &= np.fromiter(map(len, stored.memory), np.int64, count) == width
    rows = policy.fresh_rows(count)
    for at in np.flatnonzero(own).tolist():
        rows[at] = np.frombuffer(stored.memory[at], np.uint8)
    return rows, own | telemetry.unaudited
