"""Says whether a direct holding can be repaired, before anything of it is read."""

from collections.abc import Collection

from holdfast.errors import InputError
from holdfast.owner.direct.address import DirectAddress
from holdfast.owner.direct.client import DirectClient
from holdfast.owner.direct.repair import check_writable
from holdfast.owner.holding import Holding
from holdfast.owner.home import Home


def check_repairable(home: Home, name: str, sources: Collection[str]) -> None:
    """Raise if nothing can be put back into a direct holding: it can't be written, or no copy is.

    Only the storage is listed.
    """
    with home.holding(name) as holding:
        address = DirectAddress.parse(holding.record.url)
        if address is None or not isinstance(holding.node, DirectClient):
            return
        check_writable(address.data)
        if not sources and not _others_have(holding, holding.node):
            raise InputError(
                f"nothing can be put back: no other holding has what {name!r} has lost, so name "
                "your own copy with --source"
            )


def _others_have(holding: Holding, client: DirectClient) -> bool:
    """Return whether another holding has the content of an object that may be damaged."""
    suspects, catalogue = client.suspects(), holding.catalogue
    wanted = {
        file.sha256
        for file in catalogue.files(holding.name)
        if suspects is None or file.file_id in suspects
    }
    others = (record.name for record in catalogue.holdings() if record.name != holding.name)
    return any(file.sha256 in wanted for other in others for file in catalogue.files(other))
