"""docs/architecture.md lists the modules of the tree as their docstrings describe them."""

import pytest
from tests.docs.architecture import DOCUMENT, SOURCE, modules, packages, page, summary


@pytest.mark.slow
def test_the_page_is_what_make_reference_writes() -> None:
    assert DOCUMENT.read_text() == page()


@pytest.mark.slow
def test_every_module_and_package_says_what_it_is_for() -> None:
    paths = [
        path for package in packages() for path in (package / "__init__.py", *modules(package))
    ]
    assert [str(path.relative_to(SOURCE)) for path in paths if not summary(path)] == []
