"""The architecture's list of modules is that of the tree: nothing is made up or left out."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.commands import ROOT

DOCUMENT = ROOT / "docs" / "architecture.md"
SOURCE = ROOT / "src" / "holdfast"
SECTIONS = {
    "The audit primitive": "pdp",
    "The ledgers": "ledger",
    "The evidence": "evidence",
    "The storage node": "node",
    "The owner's side": "owner",
    "The API": "web",
    "The dashboard": "web/pages",
    "The control plane": "control",
    "The demo": "demo",
    "Inference": "inference",
    "The doctor": "doctor",
    "The benchmarks": "bench",
    "The commands": "cli",
}
SECTION = re.compile(
    r"^## (?P<title>[^\n]+), file by file\n(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL
)


def listed() -> Iterator[Path]:
    """Yield every path of the tables; a name without a folder is in that of the name before it.

    Modules beside the packages stand in the tree of packages.
    """
    for name in re.findall(r"^  (\w+\.py) ", DOCUMENT.read_text(), re.MULTILINE):
        yield SOURCE / name
    for section in SECTION.finditer(DOCUMENT.read_text()):
        for row in re.findall(r"^\| (`.*?) \|", section["text"], re.MULTILINE):
            room = folder = SOURCE / SECTIONS.get(section["title"], "")
            for name in re.findall(r"`([^`]+)`", row):
                first, slash, _ = name.partition("/")
                if slash:
                    folder = ((SOURCE if (SOURCE / first).is_dir() else room) / name).parent
                yield folder / name.rpartition("/")[2]


def modules() -> set[Path]:
    migrations = SOURCE / "control" / "migrations"
    return {
        path
        for path in SOURCE.rglob("*.py")
        if path.name != "__init__.py" and migrations not in path.parents
    }


def test_every_module_that_is_listed_exists() -> None:
    assert [str(path.relative_to(SOURCE)) for path in listed() if not path.exists()] == []


def test_every_module_is_listed_once() -> None:
    names = [path for path in listed() if path.suffix == ".py"]
    assert [str(path.relative_to(SOURCE)) for path in sorted(modules() - {*names})] == []
    assert len(names) == len({*names})
