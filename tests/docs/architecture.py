"""Writes the list of modules in docs/architecture.md from the modules' docstrings.

`make reference` runs it; a test compares.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.docs.commands import ROOT

from holdfast import atomic

DOCUMENT = ROOT / "docs" / "architecture.md"
SOURCE = ROOT / "src" / "holdfast"
MARK = "<!-- From here on, `make reference` writes this page from the docstrings. -->\n"
MIGRATIONS = SOURCE / "storage" / "migrations"


def packages() -> Iterator[Path]:
    """Yield every package of the tree, a package before the packages in it."""
    for init in sorted(SOURCE.rglob("__init__.py"), key=lambda path: path.parts):
        yield init.parent


def modules(package: Path) -> Iterator[Path]:
    for path in sorted(package.glob("*.py")):
        if path.name != "__init__.py":
            yield path


def summary(path: Path) -> str:
    """Return the first paragraph of a module's docstring on one line."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(docstring.split("\n\n")[0].split()).replace("|", "\\|")


def listing() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    for package in packages():
        name = package.relative_to(SOURCE).as_posix()
        yield f"## {'holdfast' if name == '.' else name}/\n"
        yield f"{summary(package / '__init__.py')}\n"
        if [*modules(package)]:
            yield "| module | what it is for |\n|---|---|"
            for path in modules(package):
                yield f"| `{path.name}` | {summary(path)} |"
            yield ""


def page() -> str:
    return DOCUMENT.read_text().partition(MARK)[0] + MARK + "\n" + listing()


if __name__ == "__main__":
    atomic.write(DOCUMENT, page().encode())
