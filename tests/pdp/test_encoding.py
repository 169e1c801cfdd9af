"""Every document has one encoding; anything else is refused with one sentence."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.memory_holding import Holding

from holdfast.errors import InputError, MalformedError
from holdfast.pdp import (
    Challenge,
    Inventory,
    Proof,
    PublicKey,
    SecretKey,
    Target,
    curve,
    encoding,
    sealing,
    target_of,
)
from holdfast.pdp.inventory import MAX_BLOCKS
from holdfast.pdp.keyfile import seal, unseal
from holdfast.pdp.sealing import ScryptCost

HOLDING = Holding.of(500, 300)
CHALLENGE = HOLDING.challenge_all()
CHEAP = ScryptCost(n=2**4)
DOCUMENTS: dict[str, tuple[bytes, Callable[[bytes], Any]]] = {
    "challenge": (CHALLENGE.encode(), Challenge.decode),
    "inventory": (HOLDING.inventory.encode(), Inventory.decode),
    "proof": (HOLDING.prove(CHALLENGE).encode(), Proof.decode),
    "public-key": (HOLDING.key.public.encode(), PublicKey.decode),
    "secret-key": (seal(HOLDING.key, b"passphrase", CHEAP), lambda c: unseal(c, b"passphrase")),
    "target": (
        target_of(HOLDING.key, HOLDING.inventory, CHALLENGE).encode(),
        Target.decode,
    ),
}
every_kind = pytest.mark.parametrize("kind", DOCUMENTS)


def fields_of(content: bytes) -> dict[str, Any]:
    document = json.loads(content)
    return {k: v for k, v in document.items() if k not in ("holdfast", "version", "checksum")}


@every_kind
def test_what_is_written_can_be_read(kind: str) -> None:
    content, decode = DOCUMENTS[kind]
    decoded = decode(content)
    if kind == "secret-key":
        assert decoded.master == HOLDING.key.master
    else:
        assert decoded.encode() == content


@every_kind
@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_any_edited_byte_is_refused(kind: str, data: st.DataObject) -> None:
    content, decode = DOCUMENTS[kind]
    edited = bytearray(content)
    edited[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(InputError):
        decode(bytes(edited))


@every_kind
def test_a_document_cut_off_anywhere_is_refused(kind: str) -> None:
    content, decode = DOCUMENTS[kind]
    for length in range(0, len(content), 7):
        with pytest.raises(MalformedError):
            decode(content[:length])
    with pytest.raises(MalformedError):
        decode(content[:-1])
    with pytest.raises(MalformedError):
        decode(content + b"\n")


@every_kind
def test_a_document_of_another_kind_is_refused(kind: str) -> None:
    _, decode = DOCUMENTS[kind]
    for other, (content, _) in DOCUMENTS.items():
        if other != kind:
            with pytest.raises(MalformedError, match=f"not a Holdfast {kind}"):
                decode(content)


@every_kind
@given(garbage=st.one_of(st.binary(max_size=200), st.text(max_size=100).map(str.encode)))
@settings(max_examples=50, deadline=None)
def test_garbage_is_refused(kind: str, garbage: bytes) -> None:
    with pytest.raises(MalformedError):
        DOCUMENTS[kind][1](garbage)


@every_kind
def test_json_of_the_right_kind_but_the_wrong_shape_is_refused(kind: str) -> None:
    content, decode = DOCUMENTS[kind]
    fields = fields_of(content)
    for field in fields:
        rest = dict(fields)
        shapes: list[Any] = [None, -1, 1.5, "", "zz", [], [[]], {}, [None], True, 2**70, "00" * 500]
        if field == "files":
            shapes.remove([])  # an inventory may be empty
        for wrong in shapes:
            with pytest.raises(InputError):
                decode(encoding.dump(kind, {**rest, field: wrong}))
        del rest[field]
        with pytest.raises(MalformedError, match=f"{field}.*missing"):
            decode(encoding.dump(kind, rest))
    with pytest.raises(MalformedError, match="unknown field 'zeal'"):
        decode(encoding.dump(kind, {**fields, "zeal": 1}))


@every_kind
def test_another_layout_of_the_same_json_is_refused(kind: str) -> None:
    content, decode = DOCUMENTS[kind]
    with pytest.raises(MalformedError, match="canonical"):
        decode(json.dumps(json.loads(content)).encode())


def test_a_newer_version_is_named() -> None:
    content = CHALLENGE.encode().replace(b'"version": 1', b'"version": 2')
    with pytest.raises(MalformedError, match="not in version 1"):
        Challenge.decode(content)


def test_deep_nesting_and_doubled_fields_are_refused() -> None:
    for content in (
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"holdfast":"challenge","holdfast":"proof"}',
    ):
        with pytest.raises(MalformedError):
            Challenge.decode(content)


def test_upper_case_hexadecimal_is_refused() -> None:
    with pytest.raises(MalformedError, match="lower-case"):
        encoding.unhex("AB", 1, "value")


def test_an_inventory_names_a_file_once_and_never_goes_back() -> None:
    inventory = HOLDING.inventory
    doubled = Inventory(inventory.key_id, inventory.sectors, inventory.files[:1] * 2)
    with pytest.raises(InputError, match="twice"):
        Inventory.decode(doubled.encode())
    newer = inventory.with_file(_version(inventory, 3))
    assert newer.hash != inventory.hash
    with pytest.raises(InputError, match="newer"):
        newer.with_file(_version(inventory, 2))
    with pytest.raises(InputError, match="not in the inventory"):
        inventory.without_file(b"?" * 16)
    assert inventory.without_file(HOLDING.ids[0]).blocks == inventory.files[1].blocks


def _version(inventory: Inventory, version: int) -> Any:
    entry = inventory.files[0]
    return type(entry)(entry.file_id, version, entry.nonce, entry.blocks)


def test_the_wrong_passphrase_and_a_damaged_file_are_told_apart() -> None:
    content = DOCUMENTS["secret-key"][0]
    with pytest.raises(InputError, match="passphrase does not open"):
        unseal(content, b"wrong")
    with pytest.raises(MalformedError, match="checksum"):
        unseal(content.replace(b'"kdf_p": 1', b'"kdf_p": 2'), b"passphrase")
    with pytest.raises(InputError, match="empty"):
        seal(HOLDING.key, b"")


def test_a_key_file_cannot_claim_what_was_not_sealed_with_it() -> None:
    """A forger fixes the checksum; the cipher still binds what stands in the clear."""
    fields = fields_of(DOCUMENTS["secret-key"][0])
    with pytest.raises(InputError, match="passphrase does not open"):
        unseal(encoding.dump("secret-key", {**fields, "sectors": 3}), b"passphrase")
    with pytest.raises(InputError, match="power of two"):
        unseal(encoding.dump("secret-key", {**fields, "kdf_n": 17}), b"passphrase")
    with pytest.raises(MalformedError, match="kdf_n"):
        unseal(encoding.dump("secret-key", {**fields, "kdf_n": 2**40}), b"passphrase")


def test_keys_of_impossible_size_are_refused() -> None:
    for sectors in (0, -1, 1025):
        with pytest.raises(InputError, match="between 1 and 1024"):
            SecretKey.generate(sectors)


def test_a_key_file_that_names_another_key_than_it_holds_is_refused() -> None:
    """Whoever knows the passphrase can seal a master secret under the name of another key."""
    other = SecretKey.generate(HOLDING.key.sectors)
    names: dict[str, encoding.Value] = {
        "sectors": other.sectors,
        "key_id": other.public.id.hex(),
    }
    content = sealing.seal("secret-key", HOLDING.key.master, names, b"passphrase", CHEAP)
    with pytest.raises(InputError, match="names another key than it holds"):
        unseal(content, b"passphrase")


def test_the_kind_of_a_document_is_known_and_noise_has_none() -> None:
    assert encoding.kind_of(CHALLENGE.encode()) == "challenge"
    for noise in (b"", b"\xff", b"[]", b"{}", b'{"holdfast": 1}', b"[" * 1000):
        assert encoding.kind_of(noise) is None, noise


def test_a_string_that_is_too_long_or_none_is_refused() -> None:
    assert encoding.Fields({"path": "a/b"}, "it").string("path", 3) == "a/b"
    for wrong in ("a/bc", 3, None):
        with pytest.raises(MalformedError, match="no text of up to 3 letters"):
            encoding.Fields({"path": wrong}, "it").string("path", 3)


def test_an_inventory_of_more_blocks_than_a_challenge_can_name_is_refused() -> None:
    first, second = HOLDING.inventory.files
    huge = tuple(replace(entry, blocks=MAX_BLOCKS) for entry in (first, second))
    with pytest.raises(MalformedError, match="blocks in all"):
        Inventory.decode(replace(HOLDING.inventory, files=huge).encode())


@pytest.mark.parametrize("length", [0, 32, 34])
def test_a_point_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(MalformedError, match="not a compressed point of 33 bytes"):
        curve.decode(b"\2" * length, "it")
