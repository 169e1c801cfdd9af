"""Whether a server answers by its OpenAPI document: what is tried, and what is asked of answers."""

from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

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


class Document:
    """An OpenAPI document, and its operations by their names."""

    def __init__(self, interface: dict[str, Any]) -> None:
        self.schema = schemathesis.openapi.from_dict(interface)
        found = (each.ok() for each in self.schema.get_all_operations() if isinstance(each, Ok))
        self.operations = {f"{each.method.upper()} {each.path}": each for each in found}

    def cases(self, name: str) -> st.SearchStrategy[Case]:
        """Return requests that the document allows, and some that it does not."""
        modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
        operation = self.operations[name]
        return st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in modes))
