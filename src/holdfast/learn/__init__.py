"""Training in JAX: the agents of the paper, and one that keeps any ceilings you set.

The simulation is the NumPy one that evaluation uses; JAX computes the gradients.
"""

import os
from importlib.util import find_spec

from holdfast.errors import InputError

FRAMEWORKS = ("jax", "optax", "tensorboardX")

# One thread per process: seeds run in processes, equal seeds must give equal weights, and matrices
# this small gain nothing from a second core. JAX reads this when it is first imported.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)


def check_installed() -> None:
    """Raise an error before any work is done if a package that training needs is missing."""
    for name in FRAMEWORKS:
        if find_spec(name) is None:
            raise InputError(
                f"training needs {name}: install it with pip install 'holdfast[train]'"
            )
