"""The settings in force, recorded in the evidence whenever a start meets others than the last ones.

One row a configuration, numbered without gaps: of several workers that start at the same moment,
the one that writes the row writes the leaf.
"""

import getpass
import hashlib
import json
import socket
from collections.abc import Mapping

from sqlalchemy import Connection, Engine, insert, select
from sqlalchemy.exc import IntegrityError

from holdfast.control.policies.aliases import Author
from holdfast.errors import StorageError
from holdfast.evidence import leaf
from holdfast.evidence.codecs import LONGEST_TEXT, plain
from holdfast.storage.database import transaction
from holdfast.storage.schema import configurations, leaves

MAX_ATTEMPTS = 100  # others may record one after the other, each with other settings

Values = Mapping[str, str | None]


def operator() -> str:
    """Return who starts the control plane, and on which host."""
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
        except IntegrityError:  # another worker was first: compare with what it recorded
            continue
    raise StorageError("the settings can't be recorded: other workers record theirs all the time")


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
    at = author.at if last is None else max(author.at, last.at)  # whatever became of the clock
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
            leaf.Setting(plain(name), _shortened(before.get(name)), _shortened(values.get(name)))
            for name in changed
        ),
        by=plain(author.by),
    )
    connection.execute(insert(leaves), [{"body": leaf.encode(change)}])
    return True


def _document(values: Values) -> str:
    return json.dumps(dict(values), sort_keys=True)


def _shortened(text: str | None) -> str | None:
    """Return a value as a leaf may hold it; a long one ends with its SHA-256."""
    if text is None:
        return None
    if len(text) <= LONGEST_TEXT:
        return plain(text)
    digest = f"... (SHA-256 {hashlib.sha256(text.encode()).hexdigest()})"
    return plain(text[: LONGEST_TEXT - len(digest)] + digest)
