"""Which versions of a holding's files are tagged, and with what: what `TagJournal` is to one key.

It is in the catalogue, so that no two hosts tag different content under one version.
"""

from dataclasses import dataclass

from holdfast.owner.catalogue import Catalogue
from holdfast.pdp.journal import spent


@dataclass(frozen=True)
class Tagged:
    catalogue: Catalogue
    holding: str

    def bind(self, file_id: bytes, version: int, digest: bytes) -> None:
        """Bind the version to these tags for good, or refuse if it is bound to others."""
        if self.catalogue.bind_tags(self.holding, file_id, version, digest) != digest:
            raise spent(file_id, version)

    def latest_version(self, file_id: bytes) -> int:
        """Return the highest version tagged so far, 0 if there is none."""
        return max(self.catalogue.tagged(self.holding, file_id), default=0)

    def digest(self, file_id: bytes, version: int) -> bytes | None:
        """Return the SHA-256 of the tags to which the version is bound, if it is."""
        return self.catalogue.tagged(self.holding, file_id).get(version)
