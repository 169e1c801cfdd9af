"""Whatever the OpenAPI document allows and forbids: the API answers by it, and never with 5xx."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schemathesis import Case
from tests.support.live_web import Served, serving
from tests.support.openapi import BOUNDED, CHECKS, Document

from holdfast.control.incidents.alerts import Alerts
from holdfast.web.app import interface

DOCUMENT = Document(interface())
# These go on until they are done, or for ever; other tests listen to them.
STREAMS = {"events", "verify", "judge"}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("target")
    with serving(folder, str(folder / "holdfast.db"), count=2, days=20) as running:
        Alerts(running.engine, running.clock).raise_alert("node-offline", "attic", "no answer")
        yield running


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in DOCUMENT.operations if name.rpartition("/")[2] not in STREAMS]
)
def test_whatever_is_sent_is_answered_by_the_document(name: str, target: Served) -> None:
    @BOUNDED
    @given(case=DOCUMENT.cases(name), existing=st.booleans())
    def answered(case: Case, existing: bool) -> None:
        if existing:
            known = {"holding": 1, "alert": 1, "place": 1, "version": "champion"}
            case.path_parameters.update(
                {each: known[each] for each in known.keys() & case.path_parameters.keys()}
            )
        answer = case.call(base_url=target.url)
        case.validate_response(answer, checks=CHECKS)

    answered()


@pytest.mark.slow
def test_whatever_follows_from_an_answer_is_answered_by_the_document(target: Served) -> None:
    """Walk from answers to what they name: from a list to its rows, and to orders about them."""
    machine: Any = DOCUMENT.schema.exclude(path_regex=f"({'|'.join(STREAMS)})$").as_state_machine()

    class Walk(machine):  # type: ignore[misc] # made at run time
        def get_call_kwargs(self, _case: Case) -> dict[str, Any]:
            return {"base_url": target.url}

        def validate_response(self, response: Any, case: Case, **_: Any) -> None:
            case.validate_response(response, checks=CHECKS)

    Walk.run(settings=settings(BOUNDED, max_examples=30, stateful_step_count=8))
