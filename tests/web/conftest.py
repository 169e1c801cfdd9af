"""The API on loopback, over an operation that has lived for some days."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine
from tests.control.conftest import address, postgres
from tests.control.operation import SIGNER, Operation, operation
from tests.control.world import Clock

from holdfast.control.log import VERIFIER
from holdfast.control.rails import DAY
from holdfast.control.settings import ControlSettings, WebSettings
from holdfast.model.scenario import PAPER
from holdfast.web.serving import Serving, listen, url_of

__all__ = ["address", "postgres"]

ANYWHERE = WebSettings(("127.0.0.1", 0))
DAYS, COUNT = 10, 6


@dataclass(frozen=True)
class Served:
    """A running API, and the operation behind it."""

    url: str
    client: httpx.Client
    operation: Operation
    folder: Path

    @property
    def engine(self) -> Engine:
        return self.operation.engine

    @property
    def clock(self) -> Clock:
        return self.operation.clock


@contextmanager
def serving(
    folder: Path, place: str, web: WebSettings = ANYWHERE, *, count: int = COUNT, days: int = DAYS
) -> Iterator[Served]:
    work = operation(folder, PAPER, count, address=place)
    work.until(work.clock.now + days * DAY)
    (folder / VERIFIER).write_text(f"{SIGNER.verifier}\n")
    settings = ControlSettings(database=place, scenario=PAPER, web=web)
    listener = listen(web)
    assert listener is not None
    server = Serving(listener, folder, settings)
    thread = threading.Thread(target=server.run, args=(work.clock,))
    thread.start()
    url = url_of(listener)
    try:
        with httpx.Client(base_url=f"{url}/api/v1", timeout=30) as client:
            yield Served(url, client, work, folder)
    finally:
        server.stop()
        thread.join()
        work.engine.dispose()


@pytest.fixture
def served(tmp_path: Path, address: str) -> Iterator[Served]:
    """Yield an API over each kind of database."""
    with serving(tmp_path, address) as running:
        yield running


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Served]:
    """Yield an API over SQLite, where the kind of database makes no difference."""
    with serving(tmp_path, str(tmp_path / "control.db"), count=3, days=3) as running:
        yield running
