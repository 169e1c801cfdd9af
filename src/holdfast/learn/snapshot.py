"""The state of an interrupted training on disk, in one safetensors file."""

import json
from pathlib import Path

import jax
import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from holdfast import atomic
from holdfast.errors import MalformedError
from holdfast.learn.learner import TrainerState

FACTS = "facts"
MAX_BYTES = 1 << 30


def write(path: Path, state: TrainerState) -> None:
    arrays = {}
    for name, tree in state.trees.items():
        for index, leaf in enumerate(jax.tree.leaves(tree)):
            # `ascontiguousarray` would give scalars an axis, which changes sums.
            arrays[f"{name}.{index}"] = np.asarray(leaf, order="C")
    atomic.write(path, safetensors.numpy.save(arrays, {FACTS: json.dumps(state.facts)}))


def read(path: Path, like: TrainerState) -> TrainerState:
    """Return the state in a file; `like` has the structure of its trees."""
    try:
        content = atomic.read(path, at_most=MAX_BYTES)
        arrays = safetensors.numpy.load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        facts = json.loads(header["__metadata__"][FACTS])
        trees = {}
        for name, tree in like.trees.items():
            leaves, shape = jax.tree.flatten(tree)
            restored = [arrays[f"{name}.{index}"] for index in range(len(leaves))]
            trees[name] = jax.tree.unflatten(shape, restored)
    except (SafetensorError, ValueError, KeyError) as error:
        raise MalformedError(
            f"{path} is not the state of a training of this kind: remove it to start anew"
        ) from error
    return TrainerState(trees, facts)
