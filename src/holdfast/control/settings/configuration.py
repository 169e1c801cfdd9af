"""Records the settings in the evidence whenever the service starts with changed ones.

There is one row per configuration, numbered without gaps: of several workers that start at the same
moment, the one that writes the row writes the leaf.
"""

import getpass
import hashlib
import json
import socket
from collections.abc import Mapping

from sqlalchemy import Connection, Engine, insert, select
from sqlalchemy.exc import IntegrityError

from holdfast.control.evidence.leaves import record_leaf
from holdfast.control.policies.aliases import Author
from holdfast.errors import StorageError
from holdfast.evidence import leaf
from holdfast.evidence.codecs import LONGEST_TEXT, plain
from holdfast.storage.database import transaction
from holdfast.storage.schema import configurations

MAX_ATTEMPTS = 100  # other workers may record different settings at the same time

Values = Mapping[str, str | None]


def operator() -> str:
    """Return the user who starts the control plane, and the host."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        user = "operator"
    return f"{user}@{socket.gethostname()}"


def record_configuration(engine: Engine, values: Values, author: Author) -> bool:
    """Write a leaf if these settings differ from those last recorded; return whether they do."""
    for _ in range(MAX_ATTEMPTS):
        try:
            with transaction(engine) as connection:
                return _record(connection, values, author)
        except IntegrityError:  # another worker was first: compare with its settings
            continue
    raise StorageError("the settings can't be recorded: other workers keep recording theirs")


def configuration_hash(values: Values) -> bytes:
    return hashlib.sha256(_document(values).encode()).digest()


def _record(connection: Connection, values: Values, author: Author) -> bool:
    newest = select(configurations).order_by(configurations.c.id.desc()).limit(1)
    last = connection.execute(newest).first()
    before: Values = {} if last is None else json.loads(last.document)
    names = sorted(before.keys() | values.keys())
    changed = [name for name in names if before.get(name) != values.get(name)]
    if not changed:
        return False
    at = author.at if last is None else max(author.at, last.at)  # the clock may have been set back
    row = {
        "id": 1 if last is None else last.id + 1,
        "at": at,
        "by": plain(author.by),
        "document": _document(values),
    }
    connection.execute(insert(configurations), [row])
    change = leaf.ConfigurationChange(
        at=at,
        hash=configuration_hash(values),
        settings=tuple(
            leaf.Setting(plain(name), _shorten(before.get(name)), _shorten(values.get(name)))
            for name in changed
        ),
        by=plain(author.by),
    )
    record_leaf(connection, change)
    return True


def _document(values: Values) -> str:
    return json.dumps(dict(values), sort_keys=True)


def _shorten(text: str | None) -> str | None:
    """Return a value as a leaf can hold it; a long one ends with its SHA-256."""
    if text is None:
        return None
    if len(text) <= LONGEST_TEXT:
        return plain(text)
    digest = f"... (SHA-256 {hashlib.sha256(text.encode()).hexdigest()})"
    return plain(text[: LONGEST_TEXT - len(digest)] + digest)
