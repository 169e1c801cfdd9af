"""Where a worker process begins. It loads NumPy only when its surroundings are set."""

import os
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path


def labour(text: bytes, out: Path, core: int, pipe: Connection) -> None:
    """Carry out the job of this text; send shares of its training, or why it failed."""
    # Leave in order when stopped, or Python complains of semaphores that were left behind.
    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(1))
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    from holdfast.errors import HoldfastError  # noqa: PLC0415
    from holdfast.paper.job import read_job  # noqa: PLC0415
    from holdfast.paper.work import carry_out  # noqa: PLC0415

    try:
        carry_out(read_job(text), out, pipe.send)
    except (
        BrokenPipeError,
        ConnectionResetError,
    ):  # who started us is gone, and so is the reason to go on
        return
    except (HoldfastError, OSError, MemoryError) as error:
        pipe.send(str(error) or type(error).__name__)
