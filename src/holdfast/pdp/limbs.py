"""Exact arithmetic modulo q on many blocks at once, as matrix products in float64.

A tag is linear in the block's bytes, so tagging N blocks is one product of their 32-bit limbs with
a matrix of constants; proving is the transposed product with the challenge's coefficients. All
partial sums are integers below 2^53, where float64 is exact in whatever order BLAS adds them.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from holdfast.pdp.field import SECTOR_BYTES, Q

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

EXACT_BITS = 53
LIMB_BITS = 32
COEFFICIENT_BYTES = 16
COEFFICIENT_LIMB_BITS = 16
TILE_BYTES = 1 << 20  # of float64 limbs: a quarter of it, or twice as much, is slower
# Multiplications in one call of BLAS. For more, OpenBLAS wakes its threads, if it may have any,
# which costs up to fifty times the processor time of products as small as ours.
THREADED_PRODUCT = 1 << 18
MIN_COLUMNS = 16  # of a part of a product, which would be slower with fewer
RUN_ROWS = 8192  # blocks reduced at once: the words of one reduction stay in the cache
ROWS_PER_PRODUCT = 1 << (EXACT_BITS - LIMB_BITS - COEFFICIENT_LIMB_BITS)
MAX_ROWS = 1 << 15  # rows whose products, below 2^48 each, add up to less than 2^63

# Four sectors of 31 bytes are 31 limbs. Three of these limbs stand across a border of sectors:
# the bytes that belong to the later sector, one, two and three, are held once more, as limbs of
# their own behind all others.
GROUP_SECTORS = 4
GROUP_BYTES = GROUP_SECTORS * SECTOR_BYTES
GROUP_LIMBS = GROUP_BYTES * 8 // LIMB_BITS
GROUP_BORDERS = GROUP_SECTORS - 1

_SCALAR_WORDS = 8
_WORDS = _SCALAR_WORDS + 2
_BITS = np.uint64(LIMB_BITS)
_MASK = np.uint64(2**LIMB_BITS - 1)
_HIGH_BITS = 24
# What 2^256 and 2^280 are congruent to, numbers of 129 and 153 bits, as columns of words.
_FOLDS = tuple(
    np.array(
        [[(2**256 - Q << bits) >> (LIMB_BITS * k) & (2**LIMB_BITS - 1)] for k in range(5)],
        np.uint64,
    )
    for bits in (0, _HIGH_BITS)
)


def max_product(environ: Mapping[str, str]) -> int:
    """Return how many multiplications one call of BLAS may have without waking a thread."""
    threads = environ.get("OPENBLAS_NUM_THREADS") or environ.get("OMP_NUM_THREADS")
    return 1 << 62 if threads == "1" else THREADED_PRODUCT


MAX_PRODUCT = max_product(os.environ)


@dataclass(frozen=True)
class Layout:
    """How a block of S sectors is spread over limbs."""

    sectors: int

    @property
    def block_bytes(self) -> int:
        return self.sectors * SECTOR_BYTES

    @property
    def groups(self) -> int:
        return -(-self.sectors // GROUP_SECTORS)

    @property
    def limbs(self) -> int:
        return self.groups * (GROUP_LIMBS + GROUP_BORDERS)

    @cached_property
    def tile_rows(self) -> int:
        return max(1, TILE_BYTES // (8 * self.limbs))

    @cached_property
    def radix_bits(self) -> int:
        """Bits of the constants' digits: as many as keep a sum over all limbs below 2^53.

        The limbs at the borders are so small that they count as less than one limb a group.
        """
        return EXACT_BITS - LIMB_BITS - (self.groups * (GROUP_LIMBS + 1) - 1).bit_length()

    @cached_property
    def _borders(self) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Where the limbs across borders stand, and how far the later sector's bytes are up."""
        kind, group = np.divmod(np.arange(GROUP_BORDERS * self.groups), self.groups)
        return GROUP_LIMBS * group + 8 * kind + 7, (24 - 8 * kind).astype(np.uint32)

    def spread(self, blocks: Bytes, out: Floats | None = None) -> Floats:
        """Return the limbs, one row for each block, in the first rows of `out` if it is given."""
        rows = len(blocks)
        if self.sectors % GROUP_SECTORS:
            padded = np.zeros((rows, self.groups * GROUP_BYTES), np.uint8)
            padded[:, : self.block_bytes] = blocks
            blocks = padded
        limbs = np.empty((rows, self.limbs)) if out is None else out[:rows, : self.limbs]
        whole = self.groups * GROUP_LIMBS
        words = blocks.view("<u4")
        limbs[:, :whole] = words
        index, shift = self._borders
        borders = words.take(index, axis=1)
        borders >>= shift
        limbs[:, whole:] = borders
        return limbs

    def constants(self, alphas: Sequence[int]) -> Floats:
        """Return the matrix, digits x limbs, that maps a block's limbs to sum_j alpha_j m_j."""
        alpha = (*alphas, *[0] * (self.groups * GROUP_SECTORS - len(alphas)))
        first = range(0, len(alpha), GROUP_SECTORS)
        column = [
            alpha[j + k // 8] << 8 * (k // 8 + 4 * (k % 8))
            for j in first
            for k in range(GROUP_LIMBS)
        ]
        # A byte across the border was counted as if it continued the earlier sector: not so.
        column += [
            alpha[j + k + 1] - (alpha[j + k] << 8 * SECTOR_BYTES)
            for k in range(GROUP_BORDERS)
            for j in first
        ]
        mask = (1 << self.radix_bits) - 1
        digits = range(0, 256, self.radix_bits)
        return np.array(
            [[float(constant % Q >> shift & mask) for constant in column] for shift in digits]
        )

    def sums(self, totals: Words) -> list[int]:
        """Return sum_i v_i m_ij mod q for each sector, then for the scalar behind the limbs."""
        rows, groups, whole = len(totals), self.groups, self.groups * GROUP_LIMBS
        limbs = totals[:, :whole].reshape(rows, groups, GROUP_LIMBS)
        borders = totals[:, whole : self.limbs].reshape(rows, GROUP_BORDERS, groups)
        padded = groups * GROUP_SECTORS
        columns = np.zeros((rows, _SCALAR_WORDS, padded + GROUP_BORDERS * groups + 1), np.uint64)
        for place in range(GROUP_SECTORS):
            part = limbs[:, :, 8 * place : 8 * place + 8].transpose(0, 2, 1)
            columns[:, : part.shape[1], place:padded:GROUP_SECTORS] = part
        for k in range(GROUP_BORDERS):
            columns[:, 7, k:padded:GROUP_SECTORS] -= borders[:, k] << np.uint64(24 - 8 * k)
        columns[:, 0, padded:-1] = borders.reshape(rows, -1)
        columns[:, :, -1] = totals[:, self.limbs :]
        *values, scalar = _integers(columns)
        sums = [0] * padded
        sums[::GROUP_SECTORS] = [body % Q for body in values[:padded:GROUP_SECTORS]]
        for k in range(GROUP_BORDERS):
            openings = values[padded + k * groups : padded + (k + 1) * groups]
            bodies = values[k + 1 : padded : GROUP_SECTORS]
            sums[k + 1 :: GROUP_SECTORS] = [
                (opening + (body << 8 * (k + 1))) % Q
                for opening, body in zip(openings, bodies, strict=True)
            ]
        return [*sums[: self.sectors], scalar % Q]


def multiply(left: Floats, right: Floats, out: Floats) -> None:
    """Write left @ right, in parts for which BLAS wakes no threads.

    Sums of integers that stay below 2^53 are exact, so the parts of a sum may be added.
    """
    height, depth = left.shape
    depths = max(1, -(-depth * height * MIN_COLUMNS // MAX_PRODUCT))
    step = max(1, -(-depth // depths))
    width = max(1, MAX_PRODUCT // (height * step))
    for first in range(0, right.shape[1], width):
        columns = slice(first, first + width)
        np.matmul(left[:, :step], right[:step, columns], out=out[:, columns])
        for start in range(step, depth, step):
            part = slice(start, start + step)
            out[:, columns] += left[:, part] @ right[part, columns]


class Reducer:
    """Reduces columns of digits modulo q, up to RUN_ROWS columns at once.

    Its buffers are made once, and whole matrices are worked on where possible: fresh memory and
    calls of NumPy took longer than the arithmetic.
    """

    def __init__(self, layout: Layout) -> None:
        radix = layout.radix_bits
        digits = -(-256 // radix)
        apart = -(-22 // radix)
        self._radix_bits = radix
        self._apart = apart
        self._split_bits = np.uint64(apart * radix)
        self._split_mask = np.uint64((1 << apart * radix) - 1)
        self._digits: Words = np.empty((digits, RUN_ROWS), np.uint64)
        self._parts: Words = np.empty((digits + apart, RUN_ROWS), np.uint64)
        self._words: Words = np.empty((_WORDS, RUN_ROWS), np.uint64)
        self._spare: Words = np.empty((5, RUN_ROWS), np.uint64)

    def reduce(self, columns: Floats, addend: NDArray[np.uint32], out: Bytes) -> None:
        """Write sum_k columns[k] 2^(k radix_bits) + addend mod q, 32 big-endian bytes a column.

        The columns are integers below 2^53 that together stay below 2^46 q; `addend` holds
        256-bit numbers as eight little-endian words.
        """
        count = columns.shape[1]
        words, spare = self._words[:, :count], self._spare[:, :count]
        self._repack(columns, words, spare[0])
        words[:_SCALAR_WORDS] += addend.T
        _carry(words, spare[0])
        _fold(words, spare)
        out.view(">u4")[:] = words[_SCALAR_WORDS - 1 :: -1].T

    def _repack(self, columns: Floats, words: Words, spare: Words) -> None:
        """Write the digits as words of 32 bits, which may still exceed 32 bits.

        Each digit is split so that both parts, shifted to their place in a word, fit in 64 bits
        together with whatever else falls into that word.
        """
        count = columns.shape[1]
        digits, parts = self._digits[:, :count], self._parts[:, :count]
        np.copyto(digits, columns, casting="unsafe")
        np.bitwise_and(digits, self._split_mask, out=parts[: len(digits)])
        parts[len(digits) :] = 0
        digits >>= self._split_bits
        parts[self._apart :] += digits
        words[:] = 0
        for k, part in enumerate(parts):
            word, shift = divmod(k * self._radix_bits, LIMB_BITS)
            words[word] += np.left_shift(part, np.uint64(shift), out=spare)


def _carry(words: Words, spare: Words) -> None:
    for k in range(len(words) - 1):
        words[k + 1] += np.right_shift(words[k], _BITS, out=spare)
    words[:-1] &= _MASK


def _fold(words: Words, spare: Words) -> None:
    """Reduce ten carried words modulo q, in place; the upper two become meaningless."""
    high = (words[_SCALAR_WORDS + 1] << _BITS) | words[_SCALAR_WORDS]
    words[_SCALAR_WORDS:] = 0
    halves = (high & np.uint64(2**_HIGH_BITS - 1), high >> np.uint64(_HIGH_BITS))
    for half, fold in zip(halves, _FOLDS, strict=True):
        words[: len(fold)] += np.multiply(half, fold, out=spare)
    _carry(words[: _SCALAR_WORDS + 1], spare[0])
    # What is left is below 2^256 + 2^176 and, but for one column in 2^32, surely below q.
    doubtful = (words[_SCALAR_WORDS - 1] == _MASK) | (words[_SCALAR_WORDS] > 0)
    for column in np.flatnonzero(doubtful):
        value = sum(int(word) << (LIMB_BITS * k) for k, word in enumerate(words[:, column])) % Q
        for k in range(_SCALAR_WORDS):
            words[k, column] = value >> (LIMB_BITS * k) & (2**LIMB_BITS - 1)


class WeightedSum:
    """The sums over i of v_i x_il, for coefficients v_i of 128 bits and rows x_i of 32-bit limbs.

    `totals` has eight rows, one for each 16-bit limb of the coefficients.
    """

    def __init__(self, width: int) -> None:
        self.totals: Words = np.zeros((COEFFICIENT_BYTES // 2, width), np.uint64)
        self._rows = 0

    def add(self, weights: Floats, limbs: Floats) -> None:
        """Add rows of limbs, whose coefficients are the columns of `weights`."""
        self._rows += len(limbs)
        if self._rows > MAX_ROWS:
            raise OverflowError(f"more than {MAX_ROWS} rows would not add up exactly")
        whole = len(limbs) - len(limbs) % ROWS_PER_PRODUCT
        left = weights[:, :whole].reshape(len(weights), -1, ROWS_PER_PRODUCT).transpose(1, 0, 2)
        right = limbs[:whole].reshape(-1, ROWS_PER_PRODUCT, limbs.shape[1])
        width = MAX_PRODUCT // (len(weights) * ROWS_PER_PRODUCT)
        for first in range(0, limbs.shape[1], width):
            part = slice(first, first + width)
            totals = self.totals[:, part]
            totals += (left @ right[:, :, part]).astype(np.uint64).sum(axis=0)
            totals += (weights[:, whole:] @ limbs[whole:, part]).astype(np.uint64)


def weights_of(coefficients: Bytes) -> Floats:
    """Return the 16-bit limbs of the coefficients, one row for each power of 2^16."""
    return np.ascontiguousarray(coefficients.view("<u2").T, np.float64)


def weighted_scalars(coefficients: Bytes, scalars: Bytes) -> int:
    """Return sum_i v_i x_i mod q for x_i given as 32 little-endian bytes each."""
    weights = weights_of(coefficients)
    limbs = scalars.view("<u2").astype(np.float64)
    total = 0
    for start in range(0, len(limbs), 1 << 21):  # rows of 16-bit limbs that add up below 2^53
        part = slice(start, start + (1 << 21))
        sums = np.empty((len(weights), limbs.shape[1]))
        multiply(weights[:, part], limbs[part], sums)
        product = sums.astype(np.uint64)
        even, odd = _integers(np.stack([product[:, 0::2], product[:, 1::2]], axis=2))
        total += even + (odd << 16)
    return total % Q


def _integers(totals: Words) -> list[int]:
    """Return sum_{a,k} totals[a, k, j] 2^(16 a + 32 k) for each j."""
    rows, width, count = totals.shape
    even, odd = totals[0::2], totals[1::2]
    low = (even & _MASK) + ((odd & np.uint64(0xFFFF)) << np.uint64(16))
    high = (even >> _BITS) + (odd >> np.uint64(16))
    digits = np.zeros((rows // 2 + width + 2, count), np.uint64)
    for row in range(rows // 2):
        digits[row : row + width] += low[row]
        digits[row + 1 : row + width + 1] += high[row]
    _carry(digits, np.empty(count, np.uint64))
    packed = digits.astype("<u4").T.tobytes()
    size = 4 * len(digits)
    return [int.from_bytes(packed[k : k + size], "little") for k in range(0, size * count, size)]
