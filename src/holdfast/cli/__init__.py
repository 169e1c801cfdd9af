"""The command line: thin commands over the other packages."""

import os
from typing import NoReturn


def main() -> NoReturn:
    """Run the command of this process.

    The command line is imported here and not above: processes that tag files import this module
    again, and don't need it.
    """
    # Processes share the cores already. With two BLAS threads on two cores, locating damage took
    # twice as long.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from holdfast.cli.app import main as run_command  # noqa: PLC0415
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    run_command()
