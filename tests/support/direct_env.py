"""A direct holding and the storage that it is on, which tests damage, change and switch off."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.support.object_store import object_store
from tests.support.owner_env import PASSPHRASE, QUICK

from holdfast.bench.object_server import ObjectServer
from holdfast.control.audit_now import audit_holdings
from holdfast.control.audits.types import AuditResult
from holdfast.owner import Home
from holdfast.owner.direct.address import DirectAddress
from holdfast.owner.direct.client import DirectClient
from holdfast.owner.direct.enrolment import Enrolment
from holdfast.owner.direct_operations import add_direct_holding

SECTORS = 2
NAME = "photos"
BUCKET, PREFIX = "bucket", "photos"


class Storage(Protocol):
    """Data that a test owns, wherever they lie."""

    @property
    def address(self) -> str: ...

    def write(self, name: str, content: bytes) -> None:
        """Write an object as its owner does, which a listing shows."""

    def rot(self, name: str, content: bytes) -> None:
        """Change an object so that no listing shows it."""

    def read(self, name: str) -> bytes: ...
    def remove(self, name: str) -> None: ...


@dataclass(frozen=True)
class FolderStorage:
    folder: Path

    @property
    def address(self) -> str:
        return str(self.folder)

    def write(self, name: str, content: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.stat().st_mtime_ns if path.exists() else None
        path.write_bytes(content)
        if before is not None:  # a coarse clock may not have moved on
            os.utime(path, ns=(before + 10**9, before + 10**9))

    def rot(self, name: str, content: bytes) -> None:
        path = self.folder / name
        status = path.stat()
        path.write_bytes(content)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def remove(self, name: str) -> None:
        (self.folder / name).unlink()


@dataclass(frozen=True)
class BucketStorage:
    server: ObjectServer
    address: str = f"s3://{BUCKET}/{PREFIX}"

    def write(self, name: str, content: bytes) -> None:
        self.server.write(_key(name), content)

    def rot(self, name: str, content: bytes) -> None:
        self.server.objects[_key(name)] = content

    def read(self, name: str) -> bytes:
        return self.server.objects[_key(name)]

    def remove(self, name: str) -> None:
        del self.server.objects[_key(name)]


def _key(name: str) -> str:
    return f"{BUCKET}/{PREFIX}/{name}"


@dataclass
class DirectSite:
    """A home, some data, and the direct holding `photos` of them."""

    home: Home
    storage: Storage
    contents: dict[str, bytes] = field(default_factory=dict)

    def fill(self, count: int = 12, size: int = 3000) -> None:
        rng = random.Random(count)
        names = [f"{'' if k % 2 else 'album/'}{k:03}.jpg" for k in range(count - 1)]
        self.contents = {name: rng.randbytes(size + k) for k, name in enumerate(names)}
        self.contents["empty"] = b""
        for name, content in self.contents.items():
            self.storage.write(name, content)

    def add(self, name: str = NAME, *, beside: bool = False, sectors: int = SECTORS) -> Enrolment:
        address = DirectAddress.of(self.storage.address, beside=beside)
        return add_direct_holding(self.home, name, address, sectors=sectors)[1]

    def audit(
        self, samples: int | None = None, *, name: str = NAME, deadline: int = 30
    ) -> AuditResult:
        """Audit the holding now: all blocks, or a sample."""
        (result,) = audit_holdings(
            self.home,
            [name],
            lambda blocks: samples or blocks,
            deadline_seconds=deadline,
        )
        return result

    @contextmanager
    def client(self, name: str = NAME) -> Iterator[DirectClient]:
        with self.home.holding(name) as holding:
            assert isinstance(holding.node, DirectClient)
            yield holding.node

    def intact(self) -> bool:
        return all(self.storage.read(name) == content for name, content in self.contents.items())


@contextmanager
def direct_site(folder: Path, kind: str) -> Iterator[DirectSite]:
    """Yield a site on a folder, or on a bucket of a loopback object store."""
    home = Home.create(folder / "home", PASSPHRASE, QUICK)
    if kind == "folder":
        (folder / "data").mkdir()
        yield DirectSite(home, FolderStorage(folder / "data"))
    else:
        with object_store({}) as server:
            yield DirectSite(home, BucketStorage(server))
