"""The types of arrays over a batch of nodes, and the one way to pick some nodes of a batch.

A batch is an array with a row for each node, or a dataclass, a tuple or nothing made of such.
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
    chosen: T = mapped(lambda array: array[which], value)
    return chosen


def put(value: T, which: IntArray | BoolArray, replacement: T) -> T:
    """Return `value` with the chosen nodes replaced, in order, by those of `replacement`."""

    def replace(array: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        copy = array.copy()
        copy[which] = new
        return copy

    changed: T = mapped(replace, value, replacement)
    return changed


def mapped(function: Callable[..., Any], *values: Any) -> Any:
    """Return a batch with the function's results in the place of each array of the first."""
    first = values[0]
    if isinstance(first, np.ndarray):
        return function(*values)
    if is_dataclass(first) and not isinstance(first, type):
        names = [field.name for field in fields(first)]
        return type(first)(*[mapped(function, *[getattr(v, n) for v in values]) for n in names])
    if isinstance(first, tuple):
        parts = [mapped(function, *items) for items in zip(*values, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    if first is None:
        return None
    raise TypeError(f"a batch is made of arrays, not of {type(first).__name__}")
