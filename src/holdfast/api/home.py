"""An owner's home for programs: `holdfast.open_home`."""

from collections.abc import Callable, Iterable
from os import fspath
from pathlib import Path

from holdfast import owner
from holdfast.api.arguments import Pathname, check_passphrase, check_path
from holdfast.control import checked_commands, holding_commands
from holdfast.control.audit_now import Repair, audit_holdings, repair_and_audit
from holdfast.control.audits.types import AuditResult
from holdfast.control.policies.aliases import Author
from holdfast.control.queries.fleet import Status, read_status
from holdfast.control.service import milliseconds
from holdfast.control.settings.configuration import operator
from holdfast.control.settings.models import read_control
from holdfast.errors import InputError, NodeError
from holdfast.model.detection import samples_for
from holdfast.owner.checked import CheckedRecord, find_checked
from holdfast.pdp import Location
from holdfast.storage.database import open_database, transaction


def open_home(path: Pathname, passphrase: str | bytes) -> "Home":
    """Open the home that `holdfast init` made.

    >>> import holdfast
    >>> home = holdfast.open_home("~/.local/share/holdfast", passphrase)
    """
    folder, secret = check_path(path, "the path of a home"), check_passphrase(passphrase)
    return Home(owner.Home.open(folder, secret))


class Home:
    """An owner's home: put files on nodes, get them back, audit and repair what nodes hold.

    >>> put = home.put("photos.tar", to=["attic", "cellar"])
    >>> all(audit.outcome == "passed" for audit in home.audit())
    True
    >>> fetched = home.get("photos.tar", "restored.tar")
    >>> fetched.lost
    ()
    """

    def __init__(self, home: owner.Home) -> None:
        self._home = home

    @property
    def folder(self) -> Path:
        return self._home.folder

    def put(
        self,
        file: Pathname,
        *,
        to: Iterable[str] = (),
        name: str | None = None,
        replace: bool = False,
        on_progress: Callable[[float], None] = lambda _bytes: None,
    ) -> dict[str, owner.UploadResult]:
        """Put a file into the holdings `to`, or into all; return what each of them now has.

        An unchanged file costs nothing, a changed one becomes a new version. A file of the same
        name from another path is replaced only with `replace`. Called again, an interrupted
        upload resumes. `on_progress` counts the file's bytes twice per holding.

        >>> home.put("photos.tar", to=["attic"])["attic"].file.name
        'photos.tar'
        """
        source = fspath(file)
        holdings = owner.select_for_put(self._home, to)
        chosen = owner.own_name(source) if name is None else name
        owner.check_name(chosen)
        return owner.put_file(
            self._home,
            holdings,
            chosen,
            owner.Original.of(Location(source)),
            replace_other=replace,
            on_progress=on_progress,
        )

    def get(
        self,
        name: str,
        out: Pathname,
        *,
        holding: str | None = None,
        version: int | None = None,
        on_progress: Callable[[int], None] = lambda _bytes: None,
    ) -> owner.DownloadResult:
        """Write a file to `out`, with every block checked; nothing is written if a part is lost.

        Blocks that are bad in one holding come from another that has the same file. `holding` is
        tried first. Only nodes that still have `version` are read, if it is given. Called again,
        an interrupted download resumes.

        >>> home.get("photos.tar", "photos-again.tar").bad
        ()
        """
        target = Path(out)
        if target.exists():
            raise InputError(f"{target} exists already: choose another file")
        with owner.replicas(
            self._home, name, holding, lambda _holding, _reason: None, version
        ) as replicas:
            return owner.get(replicas[0], replicas[1:], target, on_progress)

    def audit(
        self,
        *holdings: str,
        samples: int | None = None,
        confidence: float = 0.99,
        damage: float = 0.01,
        deadline_seconds: int = 30,
    ) -> list[AuditResult]:
        """Audit these holdings now, or all of them; empty ones are left out.

        An audit samples that many blocks, or as many as find damage of the share `damage` with
        the probability `confidence`. The evidence records it like any other audit.

        >>> [audit.outcome.value for audit in home.audit("attic", samples=4)]
        ['passed']
        """
        if not 0 < damage <= 1:
            raise InputError(f"damage must lie above 0 and at most at 1, not at {damage:g}")

        def count_samples(blocks: int) -> int:
            if samples is None:
                return samples_for(confidence, max(1, round(damage * blocks)), blocks)
            if not 1 <= samples <= blocks:
                raise InputError(f"samples must lie between 1 and {blocks}, not at {samples}")
            return samples

        return audit_holdings(
            self._home, holdings, count_samples, deadline_seconds=deadline_seconds
        )

    def repair(
        self,
        holding: str,
        *,
        sources: Iterable[Pathname] = (),
        deadline_seconds: int = 30,
        on_progress: Callable[[float], None] = lambda _share: None,
    ) -> Repair:
        """Find the damaged blocks of a holding, put them back, and audit it.

        Blocks come from other holdings that have the same file, and from `sources`, your own
        copies. `on_progress` gets the share of the blocks that is searched.

        >>> home.repair("attic", sources=["photos.tar"]).complete
        True
        """

        def report(progress: owner.RepairProgress) -> None:
            if not progress.repairing:
                on_progress(progress.done / progress.total)

        return repair_and_audit(
            self._home,
            holding,
            [fspath(source) for source in sources],
            deadline_seconds=deadline_seconds,
            on_progress=report,
        )

    def set_url(self, holding: str, url: str, *, reason: str = "") -> None:
        """Follow the node of a holding to another URL; another node there is refused.

        The evidence records it, with the reason.

        >>> home.set_url("attic", url)
        """
        with self._home.catalogue() as catalogue:
            holding_commands.set_url(catalogue, holding, url, _author(reason))

    def rename(self, holding: str, name: str, *, reason: str = "") -> None:
        """Give a holding another name. The evidence records it, with the reason.

        >>> home.rename("attic", "loft")
        >>> home.rename("loft", "attic")
        """
        with self._home.catalogue() as catalogue:
            checked = _find_checked(catalogue, holding)
            if checked is not None:
                checked_commands.rename(catalogue, checked, name, _author(reason))
            else:
                holding_commands.rename(catalogue, holding, name, _author(reason))

    def remove(
        self, holding: str, *, keep_files: bool = False, reason: str = ""
    ) -> owner.RemovalPlan | None:
        """Remove a holding, and its files on the node unless `keep_files`; return what was done.

        If the node can't be reached, the files stay there, and `unreachable` in the result says
        why. Files in `last_replicas` are in no other holding. Of storage that a tool checks
        nothing is deleted, so there is nothing to return. The evidence records it, with the
        reason.

        >>> home.remove("shed").delete_files
        True
        """
        with self._home.catalogue() as catalogue:
            checked = _find_checked(catalogue, holding)
            if checked is not None:
                checked_commands.remove(catalogue, self.folder, checked, _author(reason))
                return None
            plan = owner.plan_removal(catalogue, holding, keep_files=keep_files)
            holding_commands.remove(catalogue, plan, _author(reason))
            owner.discard_tags(self.folder, plan.holding)
            for name, failure in owner.delete_pending(self._home, catalogue, holding).items():
                raise NodeError(f"the files of {name!r} are still to be deleted: {failure}")
            return plan

    def status(self, *, limit: int = 50) -> Status:
        """Return how all holdings stand, the worst `limit` of them one by one.

        It reads what `holdfast serve` has written.

        >>> home.status().fine
        True
        """
        settings = read_control(self.folder)
        grace = settings.alerts.overdue
        with (
            open_database(settings.address(self.folder), read_only=True) as engine,
            transaction(engine) as connection,
        ):
            return read_status(connection, milliseconds(), grace=grace, limit=limit)


def _find_checked(catalogue: owner.Catalogue, name: str) -> CheckedRecord | None:
    with catalogue.transaction() as connection:
        return find_checked(connection, name)


def _author(reason: str) -> Author:
    return Author(operator(), milliseconds(), reason)
