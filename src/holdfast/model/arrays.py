"""Types of arrays over a batch of nodes, and functions that select nodes of a batch.

A batch is an array with one row per node, a dataclass or tuple of batches, or None.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Float32Array = NDArray[np.float32]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

T = TypeVar("T")


def take(value: T, which: IntArray | BoolArray) -> T:
    """Return the chosen nodes of a batch-first array, or of a dataclass or tuple of them."""
    chosen: T = map_arrays(lambda array: array[which], value)
    return chosen


def put(value: T, which: IntArray | BoolArray, replacement: T) -> T:
    """Return `value` with the chosen nodes replaced, in order, by those of `replacement`."""

    def replace(array: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        copy = array.copy()
        copy[which] = new
        return copy

    changed: T = map_arrays(replace, value, replacement)
    return changed


def map_arrays(function: Callable[..., Any], *values: Any) -> Any:
    """Return the first batch with each of its arrays replaced by the function's result."""
    first = values[0]
    if isinstance(first, np.ndarray):
        return function(*values)
    if is_dataclass(first) and not isinstance(first, type):
        names = [field.name for field in fields(first)]
        return type(first)(*[map_arrays(function, *[getattr(v, n) for v in values]) for n in names])
    if isinstance(first, tuple):
        parts = [map_arrays(function, *items) for items in zip(*values, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    if first is None:
        return None
    raise TypeError(f"a batch is made of arrays, not of {type(first).__name__}")
