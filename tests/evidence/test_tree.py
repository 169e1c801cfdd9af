"""The tree against the vectors of certificate-transparency, and against RFC 6962's own words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.merkle import includes

from holdfast.errors import MalformedError
from holdfast.evidence.tree import (
    EMPTY,
    SUBTREE,
    Frontier,
    inclusion_path,
    leaf_hash,
    node_hash,
    root_of,
    span_root,
    subtree_root,
)

LEAVES = [
    leaf_hash(bytes.fromhex(content))
    for content in (
        *("", "00", "10", "2021", "3031", "40414243", "5051525354555657"),
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
INCLUSION = {
    (0, 1): [],
    (0, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (5, 8): [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 3): ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"],
}
hashes = st.lists(st.binary(max_size=3).map(leaf_hash), min_size=1, max_size=40)


def as_defined(leaves: list[bytes]) -> bytes:
    """Return MTH of RFC 6962, section 2.1, word for word."""
    if not leaves:
        return EMPTY
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return node_hash(as_defined(leaves[:k]), as_defined(leaves[k:]))


def inclusion_proof(index: int, leaves: list[bytes]) -> list[bytes]:
    return [root_of(leaves[start:stop]) for start, stop in inclusion_path(index, len(leaves))]


def test_the_roots_are_those_of_certificate_transparency() -> None:
    assert [root_of(LEAVES[:size]).hex() for size in range(9)] == ROOTS


@pytest.mark.parametrize(("index", "size"), INCLUSION)
def test_inclusion_proofs_are_those_of_certificate_transparency(index: int, size: int) -> None:
    proof = inclusion_proof(index, LEAVES[:size])
    assert [sibling.hex() for sibling in proof] == INCLUSION[index, size]
    assert includes(bytes.fromhex(ROOTS[size]), size, LEAVES[index], index, proof)


@given(hashes)
def test_the_frontier_has_the_root_of_the_definition(leaves: list[bytes]) -> None:
    assert root_of(leaves) == as_defined(leaves)


@given(hashes)
def test_a_frontier_is_read_as_it_was_written_and_goes_on(leaves: list[bytes]) -> None:
    frontier = Frontier()
    for leaf in leaves:
        frontier = Frontier.decode(frontier.encode()).append(leaf)
    assert frontier.root == as_defined(leaves)
    with pytest.raises(MalformedError):
        Frontier.decode(frontier.encode()[:-1])


@given(st.binary(max_size=200))
def test_noise_is_no_frontier_or_is_kept_as_it_is(content: bytes) -> None:
    try:
        frontier = Frontier.decode(content)
    except MalformedError:
        return
    assert frontier.encode() == content


@given(hashes, st.data())
def test_a_proof_of_inclusion_holds_for_its_leaf_and_place_alone(
    leaves: list[bytes], data: st.DataObject
) -> None:
    size = len(leaves)
    index = data.draw(st.integers(0, size - 1))
    root, proof = root_of(leaves), inclusion_proof(index, leaves)
    assert includes(root, size, leaves[index], index, proof)
    assert not includes(root, size, leaf_hash(b"another"), index, proof)
    assert not includes(root, size, leaves[index], size, proof)
    assert not includes(root, size, leaves[index], index, [*proof, root])


def test_roots_of_whole_subtrees_stand_for_their_leaves() -> None:
    leaves = [leaf_hash(number.to_bytes(2, "big")) for number in range(3 * SUBTREE + 5)]
    frontier, subtrees = Frontier(), list[bytes]()
    for leaf in leaves:
        root = subtree_root(frontier, leaf)
        subtrees += [] if root is None else [root]
        frontier = frontier.append(leaf)
    starts = range(0, 3 * SUBTREE, SUBTREE)
    assert subtrees == [as_defined(leaves[at : at + SUBTREE]) for at in starts]
    rest = dict(enumerate(leaves[3 * SUBTREE :], 3 * SUBTREE))
    assert span_root(0, len(leaves), rest, subtrees) == as_defined(leaves)
    left = 2 * SUBTREE
    assert span_root(0, left, {}, subtrees) == as_defined(leaves[:left])
