"""Training in JAX: the agents of the paper, and one that keeps any ceilings you set.

The simulation is the NumPy one that evaluation uses; JAX computes the gradients.
"""

from importlib.util import find_spec

from holdfast.errors import InputError
from holdfast.learn import threads

FRAMEWORKS = ("jax", "optax", "tensorboardX")

threads.limit_xla()  # before JAX is imported


def check_installed() -> None:
    """Raise an error before any work is done if a package that training needs is missing."""
    for name in FRAMEWORKS:
        if find_spec(name) is None:
            raise InputError(
                f"training needs {name}: install it with pip install 'holdfast[train]'"
            )
