"""Lanes without threads: nodes are asked one after another, so that equal seeds end equally."""

from collections.abc import Callable, Sequence
from queue import SimpleQueue

from holdfast.control.audits.lanes import Item, as_reply, ask_node
from holdfast.control.audits.running_audit import Reply, RunningAudit


class InlineLanes:
    def __init__(self, clock: Callable[[], int]) -> None:
        self.replies: SimpleQueue[Item] = SimpleQueue()
        self._clock = clock

    def ask(self, audits: Sequence[RunningAudit]) -> None:
        for audit in audits:
            sent = self._clock()
            (answer,) = ask_node([audit], audit.seconds(sent))
            self.replies.put((audit, Reply(as_reply(answer), sent, self._clock())))

    def close(self) -> None:
        pass
