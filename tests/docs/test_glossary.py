"""Every place that the glossary names is there, and no word is defined twice."""

import re

from tests.docs.commands import ROOT

GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
ROWS = re.findall(r"^\| ([^|]+) \| [^|]+ \| (`[^|]+`) \|$", GLOSSARY, re.MULTILINE)


def test_the_glossary_names_places_that_exist() -> None:
    places = [place for _, where in ROWS for place in re.findall(r"`([^`]+)`", where)]
    assert len(ROWS) >= 30
    assert not [place for place in places if not (ROOT / "src" / "holdfast" / place).is_file()]


def test_no_word_is_defined_twice() -> None:
    words = [word for word, _ in ROWS]
    assert len(words) == len(set(words))
