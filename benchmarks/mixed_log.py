"""Logs of fleets whose holdings differ in size, with a truth that is known."""

from collections.abc import Sequence

import numpy as np

from holdfast.inference.log import Log
from holdfast.model.scenario import Scenario

MAX_SAMPLES = 460
RATIOS = (0.05, 0.1, 0.2)
LONGEST = 14  # units between two audits


def mixed_log(world: Scenario, sizes: Sequence[int], audits: int, seed: int = 1) -> Log:
    """Return the log of nodes of these sizes, audited at random."""
    rng = np.random.default_rng(seed)
    rows = []
    for node, blocks in enumerate(sizes):
        malicious, damaged = rng.random() < world.malicious_share, 0
        rate = world.malicious_rate if malicious else world.honest_rate
        for _ in range(audits):
            interval = int(rng.integers(1, LONGEST + 1))
            sampled = min(MAX_SAMPLES, max(1, round(float(rng.choice(RATIOS)) * blocks)))
            damaged += rng.binomial(blocks - damaged, 1 - (1 - rate) ** interval)
            failed = rng.hypergeometric(damaged, blocks - damaged, sampled) > 0
            rows.append((node, interval, sampled, failed, damaged if failed else -1))
            damaged = 0 if failed else damaged
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    return Log(
        blocks=np.array(sizes),
        elapsed=rng.integers(0, 10, len(sizes)),
        node=columns[0],
        interval=columns[1],
        sampled=columns[2],
        failed=columns[3].astype(np.bool_),
        latency=np.full(len(rows), np.nan),
        damaged=columns[4],
        action=np.zeros(len(rows), np.int64),
        observation=np.zeros((len(rows), 5), np.float32),
    )
