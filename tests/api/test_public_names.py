"""`import holdfast` offers the public API, imports it late, and says plainly what is wrong."""

from typing import assert_type

import pytest
from tests.support.processes import run_python

import holdfast
from holdfast.model.scenario import Scenario
from holdfast.sim.measures import Measures


def test_these_are_the_public_names_and_no_others() -> None:
    assert dir(holdfast) == sorted(holdfast.__all__)
    assert set(holdfast.__all__) == {
        *("__version__", "errors", "pdp"),
        *("scenario", "policy", "evaluate", "train"),
        *("verify_evidence", "open_home", "Client"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", holdfast.__all__)
def test_each_name_can_be_imported_in_a_fresh_process(name: str) -> None:
    assert run_python(f"from holdfast import {name}; print(type({name}).__name__)")


def test_importing_holdfast_imports_nothing_else_of_it() -> None:
    program = (
        "import sys; before = set(sys.modules); import holdfast\n"
        "print([n for n in sys.modules if n.startswith('holdfast') or n in ('numpy', 'httpx')])"
    )
    assert run_python(program).strip() == "['holdfast']"


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'holdfast' has no attribute 'polices'"):
        holdfast.polices  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.slow
def test_policy_stays_the_function_when_the_package_of_that_name_is_imported() -> None:
    program = (
        "import holdfast, holdfast.policy.registry\n"
        "from holdfast.policy import rules\n"
        "print(holdfast.policy('fixed-high') == rules.fixed_high())"
    )
    assert run_python(program).strip() == "True"


def test_every_public_function_shows_a_call() -> None:
    for name in set(holdfast.__all__) - {"__version__", "errors", "pdp"}:
        assert ">>> " in getattr(holdfast, name).__doc__, name


def test_a_type_checker_knows_what_each_call_returns() -> None:
    measures = holdfast.evaluate(holdfast.policy("fixed-high"), episodes=1)
    assert_type(holdfast.scenario("paper"), Scenario)
    assert_type(measures, Measures)
