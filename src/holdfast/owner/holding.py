"""One holding as its owner sees it: its record, key and files, and the client of its node."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.errors import InputError, RefusedError
from holdfast.node.access import NodeAccess
from holdfast.node.wire import HoldingFacts
from holdfast.owner.catalogue import Catalogue, FileRecord, HoldingRecord
from holdfast.owner.cipher import EncryptedSource, FileCipher
from holdfast.owner.direct.address import is_direct
from holdfast.pdp import Inventory, SecretKey
from holdfast.pdp.readers import Source


class HoldingLostError(RefusedError):
    """A node has lost a holding that it had taken on, or the last files of it."""


@dataclass(frozen=True)
class Holding:
    record: HoldingRecord
    key: SecretKey
    cipher_secret: bytes | None = field(repr=False)
    folder: Path
    catalogue: Catalogue
    node: NodeAccess
    owner: bytes

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def address(self) -> bytes:
        """The address by which its node signs."""
        return self.record.node

    @property
    def key_id(self) -> bytes:
        return self.key.public.id

    @property
    def inventory(self) -> Inventory:
        return self.catalogue.inventory(self.name, self.key_id, self.key.sectors)

    def file(self, name: str) -> FileRecord:
        file = self.catalogue.file(self.name, name)
        if file is None:
            raise InputError(f"holding {self.name!r} has no file {name!r}")
        return file

    def cipher(self, file: FileRecord) -> FileCipher | None:
        if self.cipher_secret is None:
            return None
        return FileCipher.of(self.cipher_secret, file.file_id, file.version, file.nonce)

    def stored_form(self, file: FileRecord, plain: Source) -> Source:
        """Return the file as the node gets it."""
        cipher = self.cipher(file)
        return plain if cipher is None else EncryptedSource(plain, cipher)

    @property
    def number(self) -> int:
        """Its number among the owner's on the ledger."""
        return self.record.registered_number

    def tags_path(self, file: FileRecord) -> Path:
        """Return where the tags of a file that is being uploaded are kept, named by their nonce."""
        return self.folder / "tags" / file.nonce.hex()

    def sweep(self) -> None:
        """Remove the tags of files that are no longer being uploaded."""
        wanted = {self.tags_path(intent.file) for intent in self.catalogue.intents(self.name)}
        for path in (self.folder / "tags").iterdir():
            if path not in wanted:
                path.unlink()

    def reconcile(self) -> None:
        """Record what the node has done for us that a crash kept us from recording."""
        ours = self.inventory
        facts = self._facts_at_node()
        theirs = bytes.fromhex(facts.inventory_hash)
        if theirs == ours.hash:
            return
        for intent in self.catalogue.intents(self.name):
            if intent.after(ours).hash == theirs:
                self.catalogue.conclude(self.name, intent)
                return
        if not is_direct(self.record.url) and self._is_cut(facts):
            raise HoldingLostError(
                f"the node of holding {self.name!r} has only {facts.files} of its "
                f"{len(ours.files)} files: {self._cure}"
            )
        raise RefusedError(
            f"holding {self.name!r} and its node disagree on what is stored: was the home, or the "
            "node, restored from an old copy?"
        )

    def _facts_at_node(self) -> HoldingFacts:
        for facts in self.node.holdings():
            if facts.key_id == self.key_id.hex():
                return facts
        _ = self.record.registered_number  # raises if there is none
        raise HoldingLostError(
            f"the node of holding {self.name!r} no longer knows it: {self._cure}"
        )

    def _is_cut(self, facts: HoldingFacts) -> bool:
        """Return whether the node has the first of our files, and no others."""
        ours = self.inventory
        first = replace(ours, files=ours.files[: facts.files])
        return facts.files < len(ours.files) and first.hash.hex() == facts.inventory_hash

    @property
    def _cure(self) -> str:
        if is_direct(self.record.url):
            return "restore its tags from a backup, or remove the holding and add it again"
        return (
            f"`holdfast repair {self.name}` puts its files there again, from other holdings or "
            "from --source"
        )
