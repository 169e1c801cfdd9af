"""The log of a fleet's audits as arrays: the only input of inference."""

from dataclasses import dataclass

from holdfast.model.arrays import BoolArray, Float32Array, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Log:
    """Audits of a fleet, one row each, in order of node and then of time."""

    blocks: IntArray  # (nodes,) of each node
    elapsed: IntArray  # (nodes,) whole units since the node's last row, as of now
    node: IntArray  # (rows,) index of the node
    interval: IntArray  # (rows,) whole units since the node's previous row, or since it was added
    sampled: IntArray  # (rows,) blocks challenged
    failed: BoolArray  # (rows,)
    latency: FloatArray  # (rows,) seconds until the answer; nan where none
    damaged: IntArray  # (rows,) damaged blocks counted after a failure; -1 where not counted
    action: IntArray  # (rows,) the action executed, on the grid (nearest)
    observation: Float32Array  # (rows, signals) what that action was decided on

    @property
    def nodes(self) -> int:
        return len(self.blocks)

    @property
    def audits(self) -> int:
        return len(self.node)
