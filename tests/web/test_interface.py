"""Whatever the OpenAPI document allows and forbids: the API answers by it, and never with 5xx."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.web.conftest import Served, serving

from holdfast.control.alerts import Alerts
from holdfast.web.app import interface

SCHEMA = schemathesis.openapi.from_dict(interface())
OPERATIONS = {
    f"{operation.method.upper()} {operation.path}": operation
    for operation in (
        result.ok() for result in SCHEMA.get_all_operations() if isinstance(result, Ok)
    )
}
# These go on until they are done, or for ever; other tests listen to them.
STREAMS = {"events", "verify", "judge"}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
BOUNDED = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("target")
    with serving(folder, str(folder / "control.db"), count=2, days=20) as running:
        Alerts(running.engine, running.clock).begin("node-offline", "attic", "no answer")
        yield running


@pytest.mark.parametrize(
    "name", [name for name in OPERATIONS if name.rpartition("/")[2] not in STREAMS]
)
def test_whatever_is_sent_is_answered_by_the_document(name: str, target: Served) -> None:
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    cases = st.one_of(*(OPERATIONS[name].as_strategy(generation_mode=mode) for mode in modes))

    @BOUNDED
    @given(case=cases, existing=st.booleans())
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
    machine: Any = SCHEMA.exclude(path_regex=f"({'|'.join(STREAMS)})$").as_state_machine()

    class Walk(machine):  # type: ignore[misc] # made at run time
        def get_call_kwargs(self, _case: Case) -> dict[str, Any]:
            return {"base_url": target.url}

        def validate_response(self, response: Any, case: Case, **_: Any) -> None:
            case.validate_response(response, checks=CHECKS)

    Walk.run(settings=settings(BOUNDED, max_examples=30, stateful_step_count=8))
