"""The command line: thin commands over the rooms of the house."""

import os
from typing import NoReturn


def main() -> NoReturn:
    """Run the command of this process.

    The commands are imported here and not above: the processes that tag files import the script
    that started them anew, and have no use for the commands.
    """
    # We share the cores among processes. BLAS threads on top of that wait more than they work:
    # locating damage took twice as long with two of them on two cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from holdfast.cli.app import main as run_command  # noqa: PLC0415
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    run_command()
