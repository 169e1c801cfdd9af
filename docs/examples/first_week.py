"""A policy in a file: `holdfast evaluate --policy docs/examples/first_week.py:FirstWeek`."""

import numpy as np

from holdfast.model.action import GRID
from holdfast.model.observation import OBSERVATION

FAILURES = OBSERVATION.index("consecutive_failures")


class FirstWeek:
    """Audits daily during a node's first seven audits and after a failure, then every two weeks."""

    privileged = False  # it decides from the signals alone

    def __init__(self):
        self.often, self.seldom = GRID.index_of(1, 0.20), GRID.index_of(14, 0.20)

    def initial_state(self, batch):
        """Return the state of new nodes: an array with a row per node, or None."""
        return np.zeros(batch, np.int64)

    def act(self, state, observations):
        """Return an action per row of `observations`, and the next state."""
        hurry = (state < 7) | (observations[:, FAILURES] > 0)
        return np.where(hurry, self.often, self.seldom), state + 1
