"""Workers that start at the same moment; a process that is one imports no more than it needs."""

from multiprocessing.synchronize import Barrier

from holdfast.control.policies.aliases import Author
from holdfast.control.settings.configuration import record_configuration
from holdfast.storage.database import connect

ROUNDS = 5  # of starts


def meet(address: str, barrier: Barrier, number: int) -> None:
    """Be a worker that starts at the same moment as the others, in each round with new settings."""
    engine = connect(address)
    for attempt in range(ROUNDS):
        barrier.wait(60)
        values = {"control.rails.longest": str(attempt), "control.policy": "heuristic"}
        record_configuration(engine, values, Author(f"worker {number}", attempt))
    engine.dispose()
