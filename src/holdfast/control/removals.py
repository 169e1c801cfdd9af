"""Has nodes delete the files of removed holdings, where the command that removed one did not."""

from threading import Event

import structlog

from holdfast.errors import HoldfastError
from holdfast.owner import Home, delete_pending

RETRY_SECONDS = 30.0
log = structlog.get_logger()


class Removals:
    """The pending removals of a home. Any number of services and commands may finish them."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def run(self, over: Event) -> None:
        """Finish what is pending, again and again until the service is over."""
        while not over.is_set():
            try:
                self.tick()
            except (HoldfastError, OSError) as error:
                log.warning("files of removed holdings are not deleted", reason=str(error))
            over.wait(RETRY_SECONDS)

    def tick(self) -> None:
        """Ask the nodes once. A node that can't be reached is asked again later."""
        with self._home.catalogue() as catalogue:
            failures = delete_pending(self._home, catalogue)
        for name, reason in failures.items():
            log.warning("files of a removed holding are not deleted", holding=name, reason=reason)
