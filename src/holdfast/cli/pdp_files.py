"""The files of `holdfast pdp` on this machine: the data, their tags, keys and messages."""

import fcntl
import hashlib
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from holdfast import atomic
from holdfast.errors import InputError
from holdfast.pdp import (
    Challenge,
    Inventory,
    Location,
    Prover,
    SecretKey,
    StoredFile,
    TagFile,
    encoding,
)
from holdfast.pdp.inventory import MAX_INVENTORY_BYTES
from holdfast.pdp.keyfile import MAX_KEY_FILE_BYTES
from holdfast.pdp.keys import FILE_ID_BYTES

MAX_MESSAGE_BYTES = 1 << 20


@contextmanager
def lock_key(path: Path) -> Iterator[None]:
    """Let only one command at a time change the files that belong to this key."""
    atomic.read(path, at_most=MAX_KEY_FILE_BYTES)
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def open_prover(holding: Inventory, files: list[str], tags_dir: Path | None) -> Iterator[Prover]:
    """Open the files and their tags, and check that they are what the inventory says."""
    with ExitStack() as stack:
        stored = {}
        for name in files:
            data = stack.enter_context(Location(name).open())
            tags = TagFile(stack.enter_context(Location(str(tags_path(name, tags_dir))).open()))
            stored[tags.header.file_id] = StoredFile(data, tags)
        missing = [entry for entry in holding.files if entry.file_id not in stored]
        if missing:
            raise InputError(
                f"{len(missing)} of the inventory's {len(holding.files)} files are not given, the "
                f"first is {missing[0].file_id.hex()}: name all files of the holding, or remove "
                "those that are gone with `holdfast pdp forget`"
            )
        for entry in holding.files:
            stored[entry.file_id].check(entry, holding)
        yield Prover(holding, stored)


def tags_path(name: str, folder: Path | None) -> Path:
    """Return where a file's tags are: in the folder, else beside it, or here if it is remote."""
    path = Path(name)
    if Location(name).is_remote:  # many addresses may end alike
        ending = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:8]
        return (folder or Path()) / f"{path.name}-{ending}.tags"
    return folder / f"{path.name}.tags" if folder else Path(f"{name}.tags")


def check_outputs(
    outputs: Sequence[Path | None], inputs: Sequence[Path | None], kind: str | None = None
) -> None:
    """Raise if an output can't be written, or would replace an input or a file of another kind."""
    seen = {path.resolve() for path in inputs if path is not None}
    for path in outputs:
        if path is None:
            continue
        atomic.check_output(path)
        if path.resolve() in seen:
            raise InputError(f"{path} is an input, and would be replaced: choose another name")
        seen.add(path.resolve())
        if kind and path.exists() and encoding.kind_of(read_message(path)) != kind:
            raise InputError(f"{path} exists and is not a {kind}: choose another name")


def tagged_version(tags: Path, secret: SecretKey) -> tuple[bytes, int]:
    """Return the file id and version of these tags, or a new id and 0."""
    if tags.exists():
        with Location(str(tags)).open() as reader:
            header = TagFile(reader).header
        if header.key_id == secret.public.id:
            return header.file_id, header.version
    return secrets.token_bytes(FILE_ID_BYTES), 0


def read_inventory(path: Path) -> Inventory:
    return Inventory.decode(atomic.read(path, at_most=MAX_INVENTORY_BYTES), str(path))


def read_challenge(path: Path) -> Challenge:
    return Challenge.decode(read_message(path), str(path))


def read_message(path: Path) -> bytes:
    return atomic.read(path, at_most=MAX_MESSAGE_BYTES)
