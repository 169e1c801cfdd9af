"""One thread for the arithmetic of a training, so that equal seeds give equal weights.

XLA and OpenBLAS split sums by the number of their threads, which by default is the number of cores
that a process may use: a process on one core would round otherwise than one on eight. Seeds run
in processes, and matrices this small gain nothing from a second core.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_XLA_FLAG = "--xla_cpu_multi_thread_eigen"
_MAPS = Path("/proc/self/maps")
# OpenBLAS exports these names: in the wheels of NumPy, built for long integers, and by itself.
_OPENBLAS = (("scipy_openblas", "64_"), ("openblas", "64_"), ("openblas", ""))


def limit_xla() -> None:
    """Give XLA one thread; JAX reads this when it computes for the first time."""
    os.environ["NPROC"] = "1"  # the size of XLA's thread pool, otherwise the cores
    flags = os.environ.get("XLA_FLAGS", "")
    names_file = flags and not flags.startswith("--")
    if not names_file:
        others = [flag for flag in flags.split() if not flag.startswith(_XLA_FLAG)]
        os.environ["XLA_FLAGS"] = " ".join([*others, f"{_XLA_FLAG}=false"])


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Give OpenBLAS one thread while the context lasts, though NumPy has long been imported."""
    before = [(library, library.get()) for library in _openblas()]
    try:
        for library, _ in before:
            library.set(1)
        yield
    finally:
        for library, count in before:
            library.set(count)


class _OpenBlas:
    def __init__(self, library: ctypes.CDLL, prefix: str, suffix: str) -> None:
        self._set: Any = getattr(library, f"{prefix}_set_num_threads{suffix}")
        self._get: Any = getattr(library, f"{prefix}_get_num_threads{suffix}")

    def set(self, count: int) -> None:
        self._set(ctypes.c_int(count))

    def get(self) -> int:
        return int(self._get())


def _openblas() -> list[_OpenBlas]:
    """Return every OpenBLAS that this process has loaded; elsewhere than on Linux, none."""
    libraries = []
    for path in _loaded_files():
        with suppress(OSError):
            library = ctypes.CDLL(path)
            for prefix, suffix in _OPENBLAS:
                with suppress(AttributeError):
                    libraries.append(_OpenBlas(library, prefix, suffix))
                    break
    return libraries


def _loaded_files() -> list[str]:
    if not _MAPS.exists():
        return []
    columns = (line.split(maxsplit=5) for line in _MAPS.read_text().splitlines())
    paths = {column[5] for column in columns if len(column) == 6}
    return sorted(path for path in paths if "openblas" in Path(path).name)
