"""The home's database: whether it exists, and of which version."""

from collections.abc import Iterator
from pathlib import Path

from holdfast.doctor.finding import Check, fault, ok, warning
from holdfast.owner.home import check_database
from holdfast.storage.database import Standing, standing_of

PART = "database"


def check(folder: Path, address: str) -> Iterator[Check]:
    check_database(folder, address)
    standing, revision = standing_of(address)
    if standing is None:
        yield ok(PART, "there is none yet: the first holding makes it")
    elif standing is Standing.NEWER:
        problem = f"a newer Holdfast made it: this one does not know its schema {revision}"
        yield fault(PART, problem, "upgrade this one: pip install --upgrade holdfast")
    elif standing is Standing.OLDER:
        problem = f"it has the schema {revision} of an older Holdfast"
        yield warning(PART, problem, "`holdfast serve` brings it up to date; back it up before")
    elif standing is Standing.EMPTY:
        yield ok(PART, "it can be reached and is empty: the first holding makes its tables")
    else:
        yield ok(PART, f"it can be reached and has the schema {revision} of this version")
