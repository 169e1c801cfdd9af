"""Confidence in a fleet: its hidden miss rate so far and its damage now, from the log of audits.

Both are averaged over scenarios sampled from the fit, so every figure includes its uncertainty.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from holdfast.inference.backward_sampling import sample_histories
from holdfast.inference.efficacy import PERFECT, Efficacy
from holdfast.inference.fit import Fitted, expit
from holdfast.inference.forward_filter import World, make_batches
from holdfast.inference.growth_bands import table_of
from holdfast.inference.log import Log
from holdfast.inference.sampling import sample_index
from holdfast.inference.size_classes import MAX_RATIO, in_classes, size_classes
from holdfast.model.arrays import FloatArray, IntArray
from holdfast.model.estimate import Estimate

WORLDS = 25
HISTORIES = 8  # per world
SAMPLES = WORLDS * HISTORIES
# Half width of a 95 % interval in standard deviations, for this number of worlds (Student's t).
# Quantiles of so few samples would be too narrow.
STUDENT_95 = 2.064
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class NodeDamage:
    """What is inferred of each node, so that a fleet's figures are sums over its nodes."""

    at_most: FloatArray  # (nodes,) share of its blocks damaged now, at 95 %
    damaged: FloatArray  # (nodes,) probability that any block is
    misses: IntArray  # (nodes, samples) in the sampled histories; a sample is a world and a history
    lost: IntArray  # (nodes, samples) blocks damaged now


@dataclass(frozen=True, eq=False)
class FleetConfidence:
    miss_rate: Estimate  # misses / (misses + detections), over the whole log
    detections: int
    fleet_at_most: float  # share of all blocks together, at 95 %


@dataclass(frozen=True, eq=False)
class Confidence(FleetConfidence):
    at_most: FloatArray  # as in NodeDamage
    damaged: FloatArray


def confidence(
    log: Log,
    fitted: Fitted,
    *,
    efficacy: Efficacy = PERFECT,
    seed: int = 0,
    max_ratio: float = MAX_RATIO,
) -> Confidence:
    """Return the confidence that a log gives, if audits detect damage as canaries showed."""
    classes = size_classes(log.blocks, max_ratio)
    nodes = infer_nodes(log, fitted, classes, efficacy=efficacy, seed=seed)
    fleet = summarise(
        nodes.misses.sum(axis=0),
        nodes.lost.sum(axis=0),
        detections=int(log.failed.sum()),
        blocks=int(log.blocks.sum()),
    )
    return Confidence(**vars(fleet), at_most=nodes.at_most, damaged=nodes.damaged)


def infer_nodes(
    log: Log,
    fitted: Fitted,
    classes: IntArray,
    *,
    efficacy: Efficacy = PERFECT,
    seed: int = 0,
    stream: int = 0,
    on_world: Callable[[], None] = lambda: None,
) -> NodeDamage:
    """Return what is inferred of nodes whose sizes belong to these classes.

    Any part of a fleet gets the same bounds as the whole, because all use the same worlds. Parts
    need different streams, or their histories would be sampled with the same random numbers.
    """
    worlds = list(_worlds(fitted, efficacy, seed))
    rng = np.random.default_rng((seed, 1, stream))
    classed = in_classes(log, classes)
    at_most, damaged = np.zeros((2, log.nodes))
    misses, lost = np.zeros((2, log.nodes, WORLDS, HISTORIES), np.int64)
    table = None
    for batch in make_batches(classed):
        if table is None or table.cells[-1] != batch.blocks:
            table = table_of(fitted.scenario, batch.blocks)
        scale = log.blocks[batch.nodes] / batch.blocks
        mixture = np.zeros((len(batch.nodes), len(table.cells)))
        sampled = sample_histories(worlds, classed, batch, table, HISTORIES, rng)
        for world, histories in enumerate(sampled):
            on_world()
            misses[batch.nodes, world] = histories.misses.T
            damage = histories.damage
            mixture += damage / WORLDS
            now = sample_index(np.broadcast_to(damage, (HISTORIES, *damage.shape)), rng)
            lost[batch.nodes, world] = np.rint(table.cells[now] * scale).T
        at_most[batch.nodes] = upper(table.cells, mixture) / batch.blocks
        damaged[batch.nodes] = np.maximum(1.0 - mixture[:, 0], 0.0)
    samples = (log.nodes, SAMPLES)
    return NodeDamage(at_most, damaged, misses.reshape(samples), lost.reshape(samples))


def summarise(misses: IntArray, lost: IntArray, *, detections: int, blocks: int) -> FleetConfidence:
    """Return the figures of a fleet, from the sums of its nodes' samples."""
    return FleetConfidence(
        miss_rate=_estimate(misses, detections),
        detections=detections,
        fleet_at_most=float(np.quantile(lost, LEVEL, method="higher")) / max(blocks, 1),
    )


def _worlds(fitted: Fitted, efficacy: Efficacy, seed: int) -> Iterator[World]:
    """Yield scenarios sampled from the fit, each with an efficacy; the same for any log."""
    rng = np.random.default_rng((seed, 0))
    for _ in range(WORLDS):
        yield World(fitted.sample(rng), efficacy.sample(rng))


def upper(cells: IntArray, count: FloatArray) -> IntArray:
    """Return the number of damaged blocks that is not exceeded, at 95 %.

    A cell stands for the counts around it too, so the highest of them is the bound.
    """
    reached = np.cumsum(count, axis=1) >= LEVEL * (1 - 1e-12)
    highest = np.append(cells[1:] - 1, cells[-1])
    return np.asarray(highest[np.where(reached.any(axis=1), reached.argmax(axis=1), -1)], np.int64)


def _estimate(misses: IntArray, detections: int) -> Estimate:
    """Return the miss rate from sampled misses; half an event on each side avoids 0 / 0.

    If some history has no miss at all, the rate may be 0.
    """
    odds = np.log(misses + 0.5) - np.log(detections + 0.5)
    middle, width = odds.mean(), STUDENT_95 * odds.std(ddof=1)
    value, low, high = expit(np.array([middle, middle - width, middle + width])).tolist()
    return Estimate(value, low if misses.all() else 0.0, high)
