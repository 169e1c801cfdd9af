"""The report stands alone, escapes what it is given, and takes its figures from the data."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from holdfast.errors import InputError
from holdfast.paper import prose, publication, report
from holdfast.paper.experiments import EXPERIMENTS
from holdfast.paper.result import Result
from holdfast.paper.summary import summarise

# Elements of HTML that have no end.
VOID = {"meta", "br"}


class Elements(HTMLParser):
    """Follows the elements of a page, which must be closed as they were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self._note(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self._note(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def _note(self, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "xlink:href"):
                self.addresses.append(value or "")


@pytest.fixture(scope="module")
def text(published: Path) -> str:
    return (published / publication.REPORT).read_text()


def test_the_report_asks_nothing_of_the_network(text: str) -> None:
    assert not re.search(r"https?:|//[a-z]|@import|<script|<link", text)
    assert not re.search(r"url\((?!#)", text)


def test_the_page_is_sound_and_every_name_in_it_is_unique(text: str) -> None:
    page = Elements()
    page.feed(text)
    assert not page.open
    assert len(page.ids) == len(set(page.ids))
    assert all(address.startswith("#") for address in page.addresses)
    assert {address.removeprefix("#") for address in page.addresses} <= set(page.ids)


def test_every_experiment_has_its_section_with_words_and_a_picture(text: str) -> None:
    sections = text.split("<section")[1:]
    assert len(sections) == len(EXPERIMENTS)
    for section in sections:
        for part in ("What the paper says", "What comes out here", "Where they differ", "<svg"):
            assert part in section


def test_the_report_escapes_what_it_is_given(results: dict[str, Result]) -> None:
    shift = results["shift"]
    rows = (replace(shift.rows[0], policy="<b>&"), *shift.rows[1:])
    page = report.page([replace(shift, rows=rows)], {"shift": {}})
    assert "<b>" not in page
    assert "&lt;b&gt;&amp;" in page


def test_a_taste_is_labelled_at_the_top_and_in_its_section(results: dict[str, Result]) -> None:
    taste = report.page([replace(results["shift"], taste=True)], {"shift": {}})
    assert taste.count("A TASTE, NOT A RESULT") == 2
    assert "TASTE" not in report.page([results["shift"]], {"shift": {}})


def test_the_words_follow_the_data(results: dict[str, Result]) -> None:
    table = results["table1-paper"]
    said = "\n".join(prose.paragraphs(table))
    assert "on 5 of 5 seeds" not in changed(table, 0.2)
    assert "20.0 % misses" in changed(table, 0.2)
    assert "20.0 % misses" not in said


def changed(table: Result, misses: float) -> str:
    """Return the words for another miss rate of drqn-cmdp-plus."""
    rows = tuple(
        replace(row, measures=row.measures | {"miss_rate": summarise([misses] * 5)})
        if row.policy == "drqn-cmdp-plus"
        else row
        for row in table.rows
    )
    return "\n".join(prose.paragraphs(replace(table, rows=rows)))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_there_are_words_for_every_result_even_if_nothing_was_reached(
    results: dict[str, Result], name: str
) -> None:
    assert all(prose.paragraphs(results[name]))
    rows = tuple(
        replace(
            row,
            measures={measure: summarise([None]) for measure in row.measures},
            out_of_reach=("too low",) * len(row.out_of_reach),
        )
        for row in results[name].rows
    )
    prose.paragraphs(replace(results[name], rows=rows))


def test_a_folder_without_results_has_no_report(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no results"):
        publication.write_report(tmp_path)
