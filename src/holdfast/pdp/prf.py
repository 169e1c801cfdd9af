"""PRF_K(file id, version, index): AES-256 in counter mode, two blocks an index.

Used as 256-bit numbers modulo q: q is so close to 2^256 that the bias is 2^-127.
"""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from holdfast.pdp.field import SCALAR_BYTES, Q

AES_BLOCK = 16


class BlockPrf:
    """The pseudorandom numbers of one version of one file."""

    def __init__(self, key: bytes) -> None:
        # ECB over counter blocks *is* counter mode, and serves scattered indices in one call.
        self._cipher = Cipher(algorithms.AES256(key), modes.ECB())  # noqa: S305

    def values(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return 32 little-endian bytes for each index."""
        counters = np.empty((len(indices), 2, 2), ">u8")
        counters[:, :, 0] = 0
        counters[:, 0, 1] = indices * 2
        counters[:, 1, 1] = indices * 2 + 1
        stream = np.empty(counters.nbytes + AES_BLOCK - 1, np.uint8)  # the least the cipher takes
        self._cipher.encryptor().update_into(counters.data.cast("B"), stream.data)
        return stream[: counters.nbytes].reshape(len(indices), SCALAR_BYTES)

    def value(self, index: int) -> int:
        return int.from_bytes(self.values(np.array([index])).tobytes(), "little") % Q
