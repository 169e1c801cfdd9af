"""Encryption of any range by itself, under a key that no two contents share."""

from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from holdfast.owner.cipher import EncryptedSource, FileCipher
from holdfast.pdp import Location

SECRET, FILE_ID, NONCE = bytes(range(32)), b"sixteen bytes id", bytes(range(50, 82))
CIPHER = FileCipher.of(SECRET, FILE_ID, 1, NONCE)


@given(st.binary(max_size=200), st.data())
def test_any_range_is_encrypted_as_it_is_in_the_whole(content: bytes, data: st.DataObject) -> None:
    whole = CIPHER.apply(0, content)
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, len(content)))
    assert CIPHER.apply(start, content[start:stop]) == whole[start:stop]
    assert CIPHER.apply(start, whole[start:stop]) == content[start:stop]


def test_the_keystream_is_aes_256_in_counter_mode_from_zero() -> None:
    reference = Cipher(algorithms.AES256(CIPHER.key), modes.CTR(bytes(16))).encryptor()
    assert CIPHER.apply(0, bytes(100)) == reference.update(bytes(100))


def test_files_versions_taggings_and_holdings_have_keystreams_of_their_own() -> None:
    others = [
        FileCipher.of(SECRET, FILE_ID, 2, NONCE),
        FileCipher.of(SECRET, FILE_ID, 1, NONCE[::-1]),
        FileCipher.of(SECRET, FILE_ID[::-1], 1, NONCE),
        FileCipher.of(SECRET[::-1], FILE_ID, 1, NONCE),
    ]
    streams = {cipher.apply(0, bytes(32)) for cipher in [CIPHER, *others]}
    assert len(streams) == 5


def test_a_source_is_read_as_ciphertext(tmp_path: Path) -> None:
    content = bytes(range(256)) * 4
    (tmp_path / "file").write_bytes(content)
    with EncryptedSource(Location(str(tmp_path / "file")), CIPHER).open() as reader:
        ranges = [(0, 1024), (7, 300), (1000, 24), (5, 0)]
        assert reader.size() == 1024
        whole = CIPHER.apply(0, content)
        assert list(reader.read_many(ranges)) == [whole[at : at + n] for at, n in ranges]


def test_a_cipher_shows_nothing_of_its_key() -> None:
    assert CIPHER.key.hex() not in repr(CIPHER)
    assert repr(CIPHER.key) not in repr(EncryptedSource(Location("x"), CIPHER))
