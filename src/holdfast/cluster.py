"""Connects to a dask scheduler, whose workers then run the jobs of a sweep.

A job carries its inputs and returns its outputs: workers need Holdfast, but no file of ours.
"""

import asyncio
import logging
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from holdfast.errors import HoldfastError, InputError

CONNECT_TIMEOUT_SECONDS = 10
_LOGGERS = ("distributed", "distributed.client")  # each has a level of its own


@contextmanager
def connected(address: str) -> Iterator[Executor]:
    """Yield an executor whose jobs run on the workers of the scheduler at this address.

    An exception that leaves the context cancels the jobs.
    """
    try:
        from distributed import Client  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise InputError(
            "a cluster needs dask: install it with pip install 'holdfast[cluster]'"
        ) from error
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # errors are raised, too
    try:
        asyncio.run(asyncio.wait_for(_knock(address), CONNECT_TIMEOUT_SECONDS))
    except Exception as error:  # a malformed address can raise anything
        raise InputError(
            f"can't reach a dask scheduler at {address}: check the address and that it runs"
        ) from error
    client = Client(address, timeout=CONNECT_TIMEOUT_SECONDS, set_as_default=False)
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_TIMEOUT_SECONDS)
        except TimeoutError as error:
            raise InputError(
                f"the scheduler at {address} has no workers: start one with dask worker {address}"
            ) from error
        executor: Executor = client.get_executor(pure=False)
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False)
            raise


async def _knock(address: str) -> None:
    """Connect and leave: a client that could not connect takes long to be closed."""
    from distributed import Security  # noqa: PLC0415 - as above
    from distributed.comm import connect  # noqa: PLC0415

    arguments = Security().get_connection_args("client")
    comm = await connect(address, timeout=CONNECT_TIMEOUT_SECONDS, **arguments)
    await comm.close()


def stop_if_cancelled() -> None:
    """Raise, on a worker, if nobody waits for the job that runs in this thread any more."""
    if sys.modules.get("distributed") is None:
        return
    from distributed import get_worker  # noqa: PLC0415 - as above

    try:
        worker = get_worker()
    except ValueError:  # another executor than dask's
        return
    task = worker.state.tasks.get(worker.get_current_task())
    if task is None or task.state == "cancelled":
        raise HoldfastError("the job was cancelled")
