"""Where a command runs its jobs: on this machine, or with --cluster on the workers of a cluster."""

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated

import typer

from holdfast.cluster import connected
from holdfast.errors import InputError

Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run on the workers of the dask scheduler at this address, as tcp://10.0.0.5:8786.",
    ),
]


def executor_for(
    cluster: str | None, local: Callable[[], Executor | None], jobs: int | None = None
) -> AbstractContextManager[Executor | None]:
    """Return the executor of the cluster, or else the local one, as a context."""
    if cluster is None:
        return local() or nullcontext()
    if jobs is not None:
        raise InputError("--jobs is for this machine: a cluster runs as many as it has threads")
    return connected(cluster)
