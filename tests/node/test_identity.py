"""Keys of nodes and owners at rest: they open with their passphrase, and with nothing else."""

from pathlib import Path

import pytest

from holdfast.errors import InputError, PassphraseError
from holdfast.ledger.interface import Domain
from holdfast.ledger.signing import sign, signer
from holdfast.node.identity import (
    NodeKey,
    RequestKey,
    decode_owner,
    encode_owner,
    read_node_key,
    read_owner,
    write_node_key,
)
from holdfast.pdp import Proof
from holdfast.pdp.sealing import ScryptCost

QUICK = ScryptCost(n=16)
SECRET = b"a passphrase of the tests"


def test_a_nodes_key_opens_with_its_passphrase_only(tmp_path: Path) -> None:
    key, path = NodeKey.generate(), tmp_path / "node.key"
    write_node_key(path, key, SECRET, QUICK)
    assert read_node_key(path, SECRET) == key
    assert path.stat().st_mode & 0o777 == 0o600
    assert key.secret.hex() not in path.read_text()
    with pytest.raises(PassphraseError):
        read_node_key(path, b"wrong")
    with pytest.raises(InputError, match="exists already"):
        write_node_key(path, key, SECRET, QUICK)


def test_keys_do_not_show_themselves() -> None:
    for key in (NodeKey.generate(), RequestKey.generate()):
        assert key.secret.hex() not in repr(key)


def test_a_node_signs_as_its_address() -> None:
    key, domain, proof = NodeKey.generate(), Domain(1, bytes(20)), Proof(bytes(32), 1, (2,))
    assert signer(sign(key.private, domain, 7, bytes(32), proof), domain, 7, bytes(32), proof) == (
        key.address
    )


def test_an_owner_is_named_by_its_file_or_in_hexadecimal(tmp_path: Path) -> None:
    owner, path = RequestKey.generate().owner, tmp_path / "alice.owner"
    path.write_bytes(encode_owner(owner))
    assert read_owner(str(path)) == read_owner(owner.hex()) == owner
    assert decode_owner(encode_owner(owner)) == owner
