"""The reference that ships is the one that the code writes."""

from pathlib import Path

from tests.docs.commands import ROOT

from holdfast.cli.reference import main


def test_make_reference_writes_every_page_that_the_documents_have(tmp_path: Path) -> None:
    main(tmp_path / "reference")
    written = {path.name: path.read_text() for path in (tmp_path / "reference").iterdir()}
    shipped = {path.name: path.read_text() for path in (ROOT / "docs" / "reference").iterdir()}
    assert written == shipped
