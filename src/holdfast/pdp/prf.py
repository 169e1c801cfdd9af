"""PRF_K(file id, version, nonce, index): AES-256 in counter mode, two blocks an index.

Used as 256-bit numbers modulo q: q is so close to 2^256 that the bias is 2^-127.
"""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from holdfast.pdp.field import SCALAR_BYTES, Q

AES_BLOCK = 16


class BlockPrf:
    """The pseudorandom numbers of one version of one file, 32 little-endian bytes each."""

    def __init__(self, key: bytes) -> None:
        self._aes = algorithms.AES256(key)

    def run(self, start: int, count: int) -> NDArray[np.uint8]:
        """Return the numbers of `count` indices from `start` on."""
        counter = (2 * start).to_bytes(AES_BLOCK, "big")
        stream = Cipher(self._aes, modes.CTR(counter)).encryptor().update(bytes(32 * count))
        return np.frombuffer(stream, np.uint8).reshape(count, SCALAR_BYTES)

    def scattered(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the numbers of these indices."""
        counters = np.zeros((len(indices), 2, 2), ">u8")
        counters[:, 0, 1] = indices * 2
        counters[:, 1, 1] = indices * 2 + 1
        # ECB over the counters *is* counter mode, for indices that do not follow each other.
        ecb = Cipher(self._aes, modes.ECB())  # noqa: S305
        stream = ecb.encryptor().update(counters.tobytes())
        return np.frombuffer(stream, np.uint8).reshape(len(indices), SCALAR_BYTES)

    def value(self, index: int) -> int:
        return int.from_bytes(self.run(index, 1).tobytes(), "little") % Q
