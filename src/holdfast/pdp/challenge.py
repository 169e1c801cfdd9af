"""A challenge: which blocks of a holding are asked for, and with which coefficients.

Both sides expand the same 32-byte seed by SHAKE-256: one labelled stream for the indices, one for
the coefficients, both bound to the whole challenge through its id.
"""

import hashlib
import secrets
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InputError, MalformedError
from holdfast.pdp import encoding
from holdfast.pdp.inventory import HASH_BYTES, MAX_BLOCKS, Inventory
from holdfast.pdp.limbs import COEFFICIENT_BYTES, Bytes

SEED_BYTES = 32


@dataclass(frozen=True)
class Sample:
    """The challenged blocks in ascending order, each with its coefficient in [1, 2^128)."""

    indices: NDArray[np.int64]
    coefficients: Bytes  # 16 little-endian bytes a row


@dataclass(frozen=True)
class Challenge:
    """`samples` blocks drawn from the holding's blocks `start` up to `stop`."""

    seed: bytes
    inventory_hash: bytes
    blocks: int
    samples: int
    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop <= self.blocks:
            raise InputError(
                f"a challenge can't ask for blocks {self.start} to {self.stop} of {self.blocks}"
            )
        if not 1 <= self.samples <= self.stop - self.start:
            raise InputError(
                f"a challenge can't sample {self.samples} of {self.stop - self.start} blocks"
            )

    @cached_property
    def id(self) -> bytes:
        numbers = struct.pack(">QQQQ", self.blocks, self.samples, self.start, self.stop)
        content = self.seed + self.inventory_hash + numbers
        return hashlib.sha256(b"holdfast/v1/challenge\0" + content).digest()

    @cached_property
    def sample(self) -> Sample:
        """The blocks and coefficients, derived once: a target and a verdict both need them."""
        return self.expand()

    def expand(self) -> Sample:
        indices = distinct_below(
            b"holdfast/v1/indices\0" + self.id, self.samples, self.stop - self.start
        )
        return Sample(
            indices + self.start,
            nonzero_rows(b"holdfast/v1/coefficients\0" + self.id, self.samples),
        )

    def encode(self) -> bytes:
        return encoding.dump(
            "challenge",
            {
                "seed": self.seed.hex(),
                "inventory_hash": self.inventory_hash.hex(),
                "blocks": self.blocks,
                "samples": self.samples,
                "start": self.start,
                "stop": self.stop,
            },
        )

    @classmethod
    def decode(cls, content: bytes, name: str = "challenge") -> Self:
        fields = encoding.load("challenge", content, name)
        seed = fields.hex("seed", SEED_BYTES)
        inventory_hash = fields.hex("inventory_hash", HASH_BYTES)
        numbers = [
            fields.integer(field, 0, MAX_BLOCKS) for field in ("blocks", "samples", "start", "stop")
        ]
        fields.end()
        try:
            return cls(seed, inventory_hash, *numbers)
        except InputError as error:
            raise MalformedError(f"{name}: {error}") from error


def draw_challenge(
    inventory: Inventory,
    samples: int,
    *,
    span: tuple[int, int] | None = None,
    seed: bytes | None = None,
) -> Challenge:
    """Return a challenge over the holding, or over a span of it, with a fresh random seed."""
    if inventory.blocks == 0:
        raise InputError("the inventory is empty: there is nothing to challenge")
    start, stop = span or (0, inventory.blocks)
    seed = secrets.token_bytes(SEED_BYTES) if seed is None else seed
    return Challenge(seed, inventory.hash, inventory.blocks, samples, start, stop)


def distinct_below(label: bytes, count: int, bound: int) -> NDArray[np.int64]:
    """Return `count` distinct numbers below `bound`, every set equally likely, ascending.

    They are the first distinct ones in a stream of uniform numbers. Above half, the same is done
    for those left out.
    """
    if 2 * count > bound:
        chosen = np.ones(bound, np.bool_)
        chosen[distinct_below(label, bound - count, bound)] = False
        return np.flatnonzero(chosen)
    if count == 0:
        return np.zeros(0, np.int64)
    bits = (bound - 1).bit_length()
    width = max(1, -(-bits // 8))
    length = 32 + int(1.5 * count * 2**bits / bound)
    while True:
        raw = np.frombuffer(hashlib.shake_256(label).digest(width * length), np.uint8)
        wide = np.zeros((length, 8), np.uint8)
        wide[:, :width] = raw.reshape(length, width)
        numbers = wide.view("<i8")[:, 0] & ((1 << bits) - 1)
        numbers = numbers[numbers < bound]
        first = np.sort(np.unique(numbers, return_index=True)[1])
        if len(first) >= count:
            return np.sort(numbers[first[:count]])
        length *= 2  # a longer digest begins with the shorter one


def nonzero_rows(label: bytes, count: int) -> Bytes:
    """Return uniform rows of 16 bytes, passing over zero."""
    length = count
    while True:
        stream = hashlib.shake_256(label).digest(COEFFICIENT_BYTES * length)
        rows = np.frombuffer(stream, np.uint8).reshape(length, COEFFICIENT_BYTES)
        rows = rows[rows.any(axis=1)]
        if len(rows) >= count:
            return np.ascontiguousarray(rows[:count])
        length += count
