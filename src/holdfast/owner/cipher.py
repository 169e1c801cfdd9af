"""Encryption of what a holding stores: AES-256 in counter mode, one key per tagging.

Any range is encrypted by itself, so that tagging and upload read ciphertext as they go and no copy
of it lies on the owner's disk. Integrity is the tags' business: docs/adr/0035 says why that is
enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from holdfast.pdp.readers import OpenReader, Part, Range, ReaderWrapper, Source

KEY_BYTES = 32
AES_BLOCK = 16


@dataclass(frozen=True)
class FileCipher:
    """The keystream of one version of one file; applying it twice restores the content."""

    key: bytes = field(repr=False)

    @classmethod
    def of(cls, secret: bytes, file_id: bytes, version: int, nonce: bytes) -> Self:
        info = b"holdfast/v1/file cipher\0" + file_id + version.to_bytes(8, "big") + nonce
        return cls(HKDFExpand(SHA256(), KEY_BYTES, info).derive(secret))

    def apply(self, offset: int, content: Part) -> bytes:
        counter, skip = divmod(offset, AES_BLOCK)
        stream = Cipher(
            algorithms.AES256(self.key), modes.CTR(counter.to_bytes(AES_BLOCK, "big"))
        ).encryptor()
        stream.update(bytes(skip))
        return stream.update(content)


@dataclass(frozen=True)
class EncryptedSource:
    """A source as it is stored, encrypted while it is read."""

    plain: Source
    cipher: FileCipher

    @property
    def address(self) -> str:
        return self.plain.address

    def open(self) -> OpenReader:
        return EncryptedReader(self.plain.open(), self.cipher)


class EncryptedReader(ReaderWrapper):
    """Gives the ciphertext of what another reader gives."""

    def __init__(self, plain: OpenReader, cipher: FileCipher) -> None:
        super().__init__(plain)
        self._cipher = cipher

    def read_many(self, ranges: Sequence[Range]) -> Sequence[Part]:
        parts = self._reader.read_many(ranges)
        return [
            self._cipher.apply(offset, part)
            for (offset, _), part in zip(ranges, parts, strict=True)
        ]
