"""Tests that the documents name beside their claims exist, and no claim lacks one."""

import re
from pathlib import Path

import pytest
from tests.docs.commands import DOCUMENTS, ROOT

TESTS = ROOT / "tests"
FUNCTIONS = {
    path.relative_to(TESTS).as_posix(): {
        *re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    for path in TESTS.rglob("test_*.py")
}
EVERY = {name for names in FUNCTIONS.values() for name in names}
# A name, with its file or not; an ellipsis stands for a part of it.
NAMED = re.compile(r"`(?:(?:tests/)?([\w/]+\.py)::)?((?:test_|…_)[\w…]+)`")
FILES = re.compile(r"`(?:tests/)?((?:\w+/)*test_\w+\.py)`")
# Tables whose last column names the tests.
TABLE = re.compile(r"^\|.*\| test[^|]*\|\n\|[-|]+\|\n((?:\|.*\|\n)+)", re.MULTILINE)

documents = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


@documents
def test_every_test_that_is_named_exists(document: Path) -> None:
    text = document.read_text()
    for file, name in NAMED.findall(text):
        known = FUNCTIONS.get(file, set()) if file else EVERY
        pattern = re.compile(name.replace("…", r"\w+"))
        assert any(map(pattern.fullmatch, known)), f"{file}::{name}"
    for file in FILES.findall(text):
        assert any(path == file or path.endswith(f"/{file}") for path in FUNCTIONS), file


@pytest.mark.parametrize("name", ["security.md", "evidence.md", "api.md"])
def test_every_row_about_an_attack_names_its_test(name: str) -> None:
    tables = TABLE.findall((ROOT / "docs" / name).read_text())
    assert tables
    for row in "".join(tables).splitlines():
        last = row.rpartition(" | ")[2]
        assert NAMED.search(last) or FILES.search(last), row
