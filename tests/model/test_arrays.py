"""Some nodes of a batch can be taken out and put back, whatever the batch is made of."""

from dataclasses import dataclass

import numpy as np
import pytest

from holdfast.model.arrays import IntArray, put, take


@dataclass(frozen=True)
class Pair:
    left: IntArray
    right: tuple[IntArray, None]


def test_taking_and_putting_back_reaches_every_array_of_a_value() -> None:
    value = Pair(np.arange(4), (np.arange(8).reshape(4, 2), None))
    chosen = np.array([False, True, False, True])

    some = take(value, chosen)
    assert some.left.tolist() == [1, 3]
    assert some.right[0].tolist() == [[2, 3], [6, 7]]

    changed = put(value, chosen, Pair(-some.left, (-some.right[0], None)))
    assert changed.left.tolist() == [0, -1, 2, -3]
    assert changed.right[0].tolist() == [[0, 1], [-2, -3], [4, 5], [-6, -7]]
    assert value.left.tolist() == [0, 1, 2, 3], "the value itself stays as it was"


def test_a_batch_made_of_anything_but_arrays_is_refused() -> None:
    with pytest.raises(TypeError, match="dict"):
        take({"left": np.arange(4)}, np.array([0]))
