"""Evidence checked by programs: `holdfast.verify_evidence`."""

from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path

from holdfast.control.evidence.anchors import home_ledgers
from holdfast.control.evidence.reader import open_log
from holdfast.evidence.anchors import named_ledgers
from holdfast.evidence.bundle import read_head
from holdfast.evidence.note import Verifier
from holdfast.evidence.verification import Report, verify

Pathname = str | PathLike[str]


def verify_evidence(
    path: Pathname,
    key: str,
    *,
    kept: Iterable[Pathname] = (),
    ledgers: Iterable[Pathname] = (),
    chain: str | None = None,
    contracts: Iterable[str] = (),
    owner: str | None = None,
    offline: bool = False,
    on_progress: Callable[[int], None] = lambda _leaves: None,
) -> Report:
    """Check a whole log, in a bundle or in a home, against the verifier key you were given.

    Every leaf, every signed head and every proof is checked. Anchors are checked on the local
    ledgers and contracts that you name; a home's own log is checked on the home's own ledgers,
    unless `offline`. `kept` are checkpoints or bundles from earlier, which the log must extend.

    >>> import holdfast
    >>> holdfast.verify_evidence("audits.bundle", key).fine
    True
    """
    source, pinned = Path(path).expanduser(), Verifier.decode(key)
    known = [read_head(Path(earlier), pinned) for earlier in kept]
    chains = named_ledgers(chain, list(contracts), [Path(file) for file in ledgers], owner)
    own = source.is_dir() and not chains and not offline
    if own:  # read before the log is opened, so that no anchor is newer than the log
        chains = home_ledgers(source)
    with open_log(source) as log:
        return verify(
            log, pinned, known=known, chains=chains, restored=own, on_progress=on_progress
        )
