"""The API and the dashboard know checks, and show a tool's words without believing them."""

from dataclasses import replace
from typing import Any

import httpx
import pytest
from tests.support.live_web import Served
from tests.support.sample_checks import add_checked_holding, failed, passed_check
from tests.web.listening import events

from holdfast.control.evidence.leaves import record_leaf
from holdfast.evidence.escaping import escape_words, hash_words
from holdfast.evidence.leaf import CheckResponse, DamagedUnit, Step
from holdfast.storage.database import transaction

SCRIPT = "<script>alert(1)</script>"
WORDS = "x" * 5000 + f"\x1b]0;owned\x07{SCRIPT}\n</pre>"


@pytest.fixture
def checked(changing: Served) -> Served:
    """Return an API over evidence that has two checks by a hostile tool, and a response."""
    unit = DamagedUnit.from_tool(f"{SCRIPT}\n", "changed", SCRIPT)
    with transaction(changing.engine) as connection:
        attic = add_checked_holding(connection)
        now = changing.clock.now
        first, second = (passed_check(number, now, attic) for number in (1, 2))
        hostile = replace(
            failed(second),
            damaged=(unit,),
            tool=SCRIPT,
            words=escape_words(WORDS),
            words_hash=hash_words(WORDS),
        )
        repaired = CheckResponse(now, attic, 2, Step.REPAIRED, (unit.name,), SCRIPT)
        for entry in (first, hostile, repaired):
            record_leaf(connection, entry, attic.id)
    changing.operation.sequencer.sequence()
    return changing


def newest(served: Served) -> list[dict[str, Any]]:
    answer = served.client.get("/evidence/leaves", params={"limit": 3})
    assert answer.status_code == 200, answer.text
    leaves: list[dict[str, Any]] = answer.json()["leaves"]
    return leaves


@pytest.mark.slow
def test_checks_are_listed_verified_and_counted_apart(checked: Served) -> None:
    response, second, first = newest(checked)
    assert [entry["kind"] for entry in (first, second, response)] == [
        *("check", "check", "check-response")
    ]
    assert {entry["name"] for entry in (first, second, response)} == {"attic"}
    assert second["content"]["words"].endswith(rf"\x1b]0;owned\x07{SCRIPT}\n</pre>")
    proven = checked.client.get(f"/evidence/leaves/{second['place']}").json()
    assert proven["leaf"] == second
    timeline = checked.client.get(f"/holdings/{second['holding']}/timeline").json()
    assert [entry["kind"] for entry in timeline["leaves"]] == [
        *("check-response", "check", "check")
    ]
    report = list(events(checked.client, "/evidence/verify"))[-1]
    assert report.name == "report"
    assert (report.data["fine"], report.data["checks"]) == (True, 2)
    assert report.data["proofs"] > 0


@pytest.mark.slow
def test_pages_escape_what_a_tool_said(checked: Served) -> None:
    response, second, first = newest(checked)
    with httpx.Client(base_url=checked.url, timeout=30) as client:
        pages = [client.get("/evidence").text]
        pages += [client.get(f"/evidence/{e['place']}").text for e in (first, second, response)]
    listed, passed, hostile, repaired = pages
    assert all(SCRIPT not in page and "\x1b" not in page for page in pages)
    assert "Check 1 passed" in listed
    assert "Check 2 failed" in listed
    assert "After check 2: repaired" in listed
    assert "It drew 8 of 164 packs and checked 8." in passed
    assert "This rests on the owner&#39;s word: nobody can check it again." in passed
    assert r"&lt;script&gt;alert(1)&lt;/script&gt;\n (changed" in hostile
    assert r"\x1b]0;owned\x07&lt;script&gt;" in hostile
    assert r"It concerns &lt;script&gt;alert(1)&lt;/script&gt;\n." in repaired
