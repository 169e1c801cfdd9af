"""The API on loopback, over an operation that has lived for some days."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from sqlalchemy import Engine
from tests.support.simulated_fleet import Clock
from tests.support.simulated_operation import SIGNER, Operation, operation

from holdfast.control.evidence.reader import VERIFIER
from holdfast.control.settings.models import Conditions, ControlSettings, WebSettings
from holdfast.durations import DAY
from holdfast.model.scenario import PAPER
from holdfast.web.server import RunningServer, listen, url_of

ANYWHERE = WebSettings(("127.0.0.1", 0))


DAYS, COUNT = 45, 6


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
    folder: Path,
    place: str,
    conditions: Conditions | None = None,
    *,
    count: int = COUNT,
    days: int = DAYS,
    web: WebSettings = ANYWHERE,
    prepare: Callable[[Operation], object] = lambda _work: None,
) -> Iterator[Served]:
    """Serve an operation of some days; `prepare` adds to it before the server reads anything."""
    work = operation(folder, PAPER, count, address=place)
    work.until(work.clock.now + days * DAY)
    prepare(work)
    (folder / VERIFIER).write_text(f"{SIGNER.verifier}\n")
    settings = ControlSettings(
        database=place, scenario=PAPER, web=web, promotion=conditions or Conditions()
    )
    listener = listen(web)
    assert listener is not None
    url = url_of(listener)
    server = RunningServer(listener, folder, settings)
    thread = threading.Thread(target=server.run, args=(work.clock,))
    thread.start()
    try:
        with httpx.Client(base_url=f"{url}/api/v1", timeout=30) as client:
            yield Served(url, client, work, folder)
    finally:
        server.stop()
        thread.join()
        work.engine.dispose()
