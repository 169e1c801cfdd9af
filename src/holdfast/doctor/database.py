"""The control plane's database: whether it is there, and of which version."""

from collections.abc import Iterator

from holdfast.doctor.finding import Check, fault, ok, warning
from holdfast.storage.database import Standing, connect, is_there, schema, transaction

PART = "database"


def standing_of(address: str) -> tuple[Standing | None, str | None]:
    """Return how its schema stands to ours, and its revision; nothing, where there is none yet."""
    if not is_there(address):
        return None, None
    engine = connect(address, read_only=True)
    try:
        with transaction(engine) as connection:
            return schema(connection)
    finally:
        engine.dispose()


def look(address: str) -> Iterator[Check]:
    standing, revision = standing_of(address)
    if standing is None:
        yield ok(PART, "there is none yet: `holdfast serve` makes it")
    elif standing is Standing.NEWER:
        found = f"a newer Holdfast made it: this one does not know its schema {revision}"
        yield fault(PART, found, "upgrade this one: pip install --upgrade holdfast")
    elif standing is Standing.OLDER:
        found = f"it has the schema {revision} of an older Holdfast"
        yield warning(PART, found, "`holdfast serve` brings it up to date; back it up before")
    elif standing is Standing.EMPTY:
        yield ok(PART, "it can be reached and is empty: `holdfast serve` makes its tables")
    else:
        yield ok(PART, f"it can be reached and has the schema {revision} of this version")
