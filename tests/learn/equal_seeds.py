"""Trains a method for a few episodes and prints the hash of its weights; a core may be named."""

import hashlib
import os
import sys
import tempfile
from pathlib import Path

EPISODES = 12


def weights_digest(method: str) -> str:
    from holdfast.learn import methods, training  # noqa: PLC0415 - after the core is chosen
    from holdfast.model.scenario import PAPER  # noqa: PLC0415
    from holdfast.policy.checkpoint import WEIGHTS  # noqa: PLC0415

    training.VALIDATION_EPISODES = 20
    with tempfile.TemporaryDirectory() as name:
        run = training.Run(method, PAPER, 0, EPISODES, methods.settings_of(method))
        training.train(run, Path(name))
        return hashlib.sha256(Path(name, WEIGHTS).read_bytes()).hexdigest()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        os.sched_setaffinity(0, {int(sys.argv[2])})
    sys.stdout.write(weights_digest(sys.argv[1]))
