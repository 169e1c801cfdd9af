"""The home's own ledgers, read to check the anchors of its evidence."""

from pathlib import Path

from holdfast.errors import InputError
from holdfast.evidence.anchors import OnChain
from holdfast.ledger.reader import ChainReader, FileReader
from holdfast.owner.home import catalogue_in, check_home
from holdfast.owner.ledgers import public_sender
from holdfast.owner.settings import read_settings


def home_ledgers(folder: Path) -> list[OnChain]:
    """Return the ledgers that a home's settings name, read; open its log afterwards.

    It takes no passphrase.
    """
    check_home(folder)
    settings = read_settings(folder)
    files = sorted(folder.glob("ledger-*.db"))
    if settings.evm is None and not files:
        return []
    owner = public_sender(folder, settings)
    if owner is None:
        raise InputError(
            f"{folder} does not say which address anchors its evidence: name it by --owner, with "
            "--chain and --contract, or give --offline"
        )
    if settings.evm is None:
        return [OnChain(FileReader(path), owner) for path in files]
    reader = ChainReader.connect(settings.evm.url, settings.evm.contract)
    return [OnChain(reader, owner, first_block(folder))]


def first_block(folder: Path) -> int:
    """Return the block of the first registration: nothing of the home is before it."""
    with catalogue_in(folder) as catalogue:
        known = catalogue.registrations()
        complete = all(holding.name in known for holding in catalogue.holdings())
    blocks = [registration.block for registration in known.values()]
    return min(blocks) if blocks and complete else 0
