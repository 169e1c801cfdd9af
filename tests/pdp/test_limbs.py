"""The fast paths equal the plain-integer definition, on random and on extreme data."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.support.memory_holding import FILE_ID, NONCE, Holding
from tests.support.processes import run_python
from tests.support.tag_definition import sectors_of, tag_of

from holdfast.pdp.blocks import pad
from holdfast.pdp.field import Q
from holdfast.pdp.keys import SecretKey
from holdfast.pdp.limbs import (
    MAX_ROWS,
    RUN_ROWS,
    THREADED_PRODUCT,
    Bytes,
    Layout,
    Reducer,
    WeightedSum,
    max_product,
    multiply,
    weighted_scalars,
    weights_of,
)
from holdfast.pdp.prf import BlockPrf
from holdfast.pdp.tags import Tagger

SECTORS = [1, 2, 3, 4, 5, 16, 17, 31, 128]
ALPHAS = {
    "derived": None,
    "q - 1": Q - 1,
    "one": 1,
    "every digit full": (1 << 255) - 1,
    "wraps when shifted": (Q + 1) // 2,
}


def blocks_of(kind: str, count: int, size: int) -> Bytes:
    random = np.random.default_rng(count + size)
    match kind:
        case "random":
            return random.integers(0, 256, (count, size), np.uint8)
        case "0xFF":
            return np.full((count, size), 0xFF, np.uint8)
        case "zero":
            return np.zeros((count, size), np.uint8)
        case _:
            return random.choice(np.array([0, 0xFF], np.uint8), (count, size))


def key_with(sectors: int, alpha: int | None) -> SecretKey:
    key = SecretKey(bytes(range(32)), sectors)
    if alpha is not None:
        key.__dict__["_scalars"] = tuple((alpha, bytes(32)) for _ in range(sectors))
    return key


def reduce_one(layout: Layout, column: NDArray[np.float64], addend: NDArray[np.uint32]) -> int:
    reduced = np.empty((1, 32), np.uint8)
    Reducer(layout).reduce(column, addend, reduced)
    return int.from_bytes(reduced.tobytes(), "big")


@pytest.fixture
def _in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let products be divided, as where BLAS may have threads."""
    monkeypatch.setattr("holdfast.pdp.limbs.MAX_PRODUCT", THREADED_PRODUCT)


@pytest.mark.parametrize("height", [1, 13, 32])
@pytest.mark.parametrize("depth", [1, 136, 1088, 8704, 20_000])
@pytest.mark.parametrize("width", [1, 15, 300])
@pytest.mark.usefixtures("_in_parts")
def test_a_product_in_parts_is_the_product(height: int, depth: int, width: int) -> None:
    rng = np.random.default_rng(depth)
    left = rng.integers(0, 1 << 7, (height, depth))
    right = rng.integers((1 << 32) - 5, 1 << 32, (width, depth)).T  # sums close to 2^53
    out = np.full((height, width), np.nan)
    multiply(left.astype(np.float64), right.astype(np.float64), out)
    assert np.array_equal(out.astype(np.int64), left @ right)


@pytest.mark.parametrize("sectors", [1, 128, 1024])
@pytest.mark.usefixtures("_in_parts")
def test_sums_in_parts_are_the_sums(sectors: int) -> None:
    rng = np.random.default_rng(sectors)
    limbs = rng.integers(0, 1 << 32, (77, Layout(sectors).limbs))
    coefficients = rng.integers(0, 256, (77, 16), np.uint8)
    weighted = WeightedSum(limbs.shape[1])
    weighted.add(weights_of(coefficients), limbs.astype(np.float64))
    weights = weights_of(coefficients).astype(np.uint64)
    assert np.array_equal(weighted.totals, weights @ limbs.astype(np.uint64))


@pytest.mark.parametrize(
    ("environ", "threads"),
    [
        ({}, True),
        ({"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "1"}, True),
        ({"OPENBLAS_NUM_THREADS": "1"}, False),
        ({"OMP_NUM_THREADS": "1"}, False),
    ],
)
def test_products_are_divided_where_blas_may_have_threads(
    environ: dict[str, str], threads: bool
) -> None:
    assert (max_product(environ) == THREADED_PRODUCT) is threads


# Prints the ticks of processor time that the main thread and all others have used.
TICKS = """
import os
os.environ["OPENBLAS_NUM_THREADS"] = "4"
import numpy as np
from pathlib import Path
from holdfast.pdp.keys import SecretKey
from holdfast.pdp.limbs import WeightedSum, weighted_scalars, weights_of
from holdfast.pdp.tags import Tagger
def ticks(path):
    fields = path.read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
for sectors in (16, 128, 1024):
    key = SecretKey(bytes(32), sectors)
    rows = (8 << 20) // key.layout.block_bytes
    blocks = np.random.default_rng(1).integers(0, 256, (rows, key.layout.block_bytes), np.uint8)
    Tagger(key, bytes(16), 1, bytes(16)).tags(0, blocks)
    some = min(rows, 4096)
    limbs, coefficients = key.layout.spread(blocks[:some]), blocks[:some, :16].copy()
    WeightedSum(limbs.shape[1]).add(weights_of(coefficients), limbs)
scalars = np.ones((20_000, 32), np.uint8)
weighted_scalars(scalars[:, :16].copy(), scalars)
own = str(os.getpid())
used = {path.parent.name: ticks(path) for path in Path("/proc/self/task").glob("*/stat")}
print(used.pop(own), sum(used.values()))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
def test_our_products_start_no_threads_of_blas() -> None:
    own, others = map(int, run_python(TICKS).split())
    assert others <= 8 + 0.5 * own  # they were more than the own ones


@given(indices=st.lists(st.integers(0, 2**62), max_size=5), start=st.integers(0, 2**62))
@settings(max_examples=30, deadline=None)
def test_scattered_pseudorandom_numbers_are_those_of_the_runs(
    indices: list[int], start: int
) -> None:
    prf = BlockPrf(b"k" * 32)
    scattered = prf.scattered(np.array([*indices, start + 3], np.int64))
    assert [row.tobytes() for row in scattered] == [
        *(prf.run(index, 1).tobytes() for index in indices),
        prf.run(start, 5)[3].tobytes(),
    ]


def with_scalar(sums: WeightedSum) -> NDArray[np.uint64]:
    """Return the totals with those of a scalar of zero behind them, where a proof has its tag."""
    return np.concatenate([sums.totals, np.zeros((len(sums.totals), 8), np.uint64)], axis=1)


@pytest.mark.parametrize("sectors", SECTORS)
@pytest.mark.parametrize("kind", ["random", "0xFF", "zero", "saturated"])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_tags_equal_the_definition(sectors: int, kind: str, alpha: str) -> None:
    key = key_with(sectors, ALPHAS[alpha])
    blocks = blocks_of(kind, 7, key.layout.block_bytes)
    tags = Tagger(key, FILE_ID, 3, NONCE).tags(2**40, blocks)
    for row, (tag, block) in enumerate(zip(tags, blocks, strict=True)):
        expected = tag_of(key, FILE_ID, 3, NONCE, 2**40 + row, block.tobytes())
        assert int.from_bytes(tag.tobytes(), "big") == expected


@pytest.mark.parametrize("sectors", [1, 16, 128])
def test_runs_and_tiles_leave_no_seam(sectors: int) -> None:
    key = key_with(sectors, None)
    tile = key.layout.tile_rows
    count = RUN_ROWS + tile + 1 if sectors < 100 else 3 * tile + 1
    blocks = blocks_of("random", count, key.layout.block_bytes)
    tags = Tagger(key, FILE_ID, 1, NONCE).tags(5, blocks)
    for row in {0, tile - 1, tile, min(RUN_ROWS, count) - 1, min(RUN_ROWS, count - 1), count - 1}:
        expected = tag_of(key, FILE_ID, 1, NONCE, 5 + row, blocks[row].tobytes())
        assert int.from_bytes(tags[row].tobytes(), "big") == expected


@pytest.mark.parametrize("sectors", [*SECTORS, 256, 600, 1024])
def test_the_largest_possible_sum_stays_exact(sectors: int) -> None:
    layout = Layout(sectors)
    limbs = layout.spread(np.full((1, layout.block_bytes), 0xFF, np.uint8))
    full_digit = (1 << layout.radix_bits) - 1
    assert int(sum(int(limb) for limb in limbs[0])) * full_digit < 2**53


@pytest.mark.parametrize("sectors", [1, 4, 16, 128, 1024])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_reduction_equals_the_definition(sectors: int, data: st.DataObject) -> None:
    layout = Layout(sectors)
    digits = -(-256 // layout.radix_bits)
    top = layout.limbs * 2**32 * 2**layout.radix_bits  # no digit of a real sum is larger
    digit = st.one_of(
        st.integers(0, min(top, 2**53 - 1)), st.sampled_from([0, min(top, 2**53) - 1])
    )
    low = data.draw(st.lists(digit, min_size=digits - 1, max_size=digits - 1))
    columns = [*low, data.draw(st.integers(0, 2**40))]
    addend = data.draw(
        st.one_of(
            st.integers(0, 2**256 - 1),
            st.sampled_from([0, Q - 1, Q, Q + 1, 2**256 - 1, 2**256 - 2**224]),
        )
    )
    words = np.frombuffer(addend.to_bytes(32, "little"), "<u4").reshape(1, 8)
    reduced = reduce_one(layout, np.array(columns, np.float64)[:, np.newaxis], words)
    value = sum(digit << (layout.radix_bits * k) for k, digit in enumerate(columns)) + addend
    assert reduced == value % Q


@pytest.mark.parametrize("excess", [-1, 0, 1, 2**128, 2**256 - Q - 1])
def test_what_lies_between_q_and_2_to_the_256_is_reduced(excess: int) -> None:
    words = np.frombuffer((Q + excess).to_bytes(32, "little"), "<u4").reshape(1, 8)
    columns = np.zeros((-(-256 // Layout(16).radix_bits), 1))
    reduced = reduce_one(Layout(16), columns, words)
    assert reduced == (Q + excess) % Q


@pytest.mark.parametrize("sectors", [4, 16, 128])
@pytest.mark.parametrize("high", [1, 2**24 - 1, 2**24, 2**30])
def test_what_folding_carries_beyond_256_bits_is_reduced(sectors: int, high: int) -> None:
    layout = Layout(sectors)
    columns = np.zeros((-(-256 // layout.radix_bits), 1))
    columns[-1] = high << (256 - (len(columns) - 1) * layout.radix_bits)
    words = np.full((1, 8), 2**32 - 1, "<u4")
    reduced = reduce_one(layout, columns, words)
    assert reduced == ((high + 1) * 2**256 - 1) % Q


@pytest.mark.parametrize("sectors", SECTORS)
@pytest.mark.parametrize("kind", ["random", "0xFF", "zero", "saturated"])
@pytest.mark.parametrize("weights", ["random", "0xFF"])
def test_sector_sums_equal_the_definition(sectors: int, kind: str, weights: str) -> None:
    layout = Layout(sectors)
    blocks = blocks_of(kind, 70, layout.block_bytes)
    coefficients = blocks_of(weights, 70, 16)
    sums = WeightedSum(layout.limbs)
    sums.add(weights_of(coefficients[:33]), layout.spread(blocks[:33]))
    sums.add(weights_of(coefficients[33:]), layout.spread(blocks[33:]))
    v = [int.from_bytes(row.tobytes(), "little") for row in coefficients]
    m = [sectors_of(block.tobytes()) for block in blocks]
    expected = [sum(v[i] * m[i][j] for i in range(70)) % Q for j in range(sectors)]
    assert layout.sums(with_scalar(sums)) == [*expected, 0]


def test_as_many_rows_as_allowed_add_up_exactly_and_one_more_is_refused() -> None:
    layout = Layout(1)
    limbs = layout.spread(np.full((MAX_ROWS, 31), 0xFF, np.uint8))
    coefficients = np.full((MAX_ROWS, 16), 0xFF, np.uint8)
    sums = WeightedSum(layout.limbs)
    sums.add(weights_of(coefficients), limbs)
    expected = MAX_ROWS * (2**128 - 1) * (2**248 - 1) % Q
    assert layout.sums(with_scalar(sums)) == [expected, 0]
    with pytest.raises(OverflowError):
        sums.add(weights_of(coefficients[:1]), limbs[:1])


@given(
    rows=st.lists(
        st.tuples(st.binary(min_size=16, max_size=16), st.binary(min_size=32, max_size=32))
    )
)
@settings(max_examples=50, deadline=None)
def test_weighted_scalars_equal_the_definition(rows: list[tuple[bytes, bytes]]) -> None:
    v = np.frombuffer(b"".join(row[0] for row in rows), np.uint8).reshape(-1, 16)
    x = np.frombuffer(b"".join(row[1] for row in rows), np.uint8).reshape(-1, 32)
    expected = sum(int.from_bytes(a, "little") * int.from_bytes(b, "little") for a, b in rows)
    assert weighted_scalars(v, x) == expected % Q


@pytest.mark.parametrize("sectors", [1, 2, 5, 16, 128])
def test_files_of_every_awkward_length_are_tagged_by_the_definition(sectors: int) -> None:
    size = 31 * sectors
    lengths = {0, 1, 30, 31, 32, size - 1, size, size + 1, 8 * size - 1, 8 * size, 9 * size + 1}
    for length in sorted(lengths):
        holding = Holding.of(length, sectors=sectors)
        content = bytes(holding.contents[0])
        tail = content[length // size * size :]
        blocks = [content[k * size : (k + 1) * size] for k in range(length // size)]
        blocks.append(pad(tail, holding.key.layout))
        expected = [
            tag_of(holding.key, holding.ids[0], 1, NONCE, index, block).to_bytes(32, "big")
            for index, block in enumerate(blocks)
        ]
        assert holding.get_tags() == expected, length
        assert holding.passes()
