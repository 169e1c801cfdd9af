"""Settings, options, commands, variables, resources, metrics, alerts and extras of the documents.

Whole command lines in blocks are the business of `test_commands.py`.
"""

import json
import re
import tomllib
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from tests.docs.blocks import FENCED, blocks_of
from tests.docs.commands import DOCUMENTS, ROOT

from holdfast.cli.app import root_command
from holdfast.control.incidents import types
from holdfast.control.incidents.alerts import Kind
from holdfast.control.prometheus import Metrics
from holdfast.control.settings.models import read_control
from holdfast.owner.settings import read_settings
from holdfast.storage.database import connect, migrate

REFERENCE = ROOT / "docs" / "reference"
SOURCE = "".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.py")))
OPTIONS = {*re.findall(r"--[a-z][a-z-]*", (REFERENCE / "cli.md").read_text())}
# Of other programs: restic, borg, rclone, Proxmox Backup Server and git-annex.
OPTIONS |= {
    *("--debug", "--lock-wait", "--log-json", "--repair", "--repository-only"),
    *("--download", "--in", "--numcopies", "--outdated-after", "--read-data", "--read-only"),
}
RESOURCES = {
    re.sub(r"\{\w+\}", "{}", path.removeprefix("/api/v1/"))
    for path in json.loads((REFERENCE / "openapi.json").read_text())["paths"]
}

documents = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


def codes(document: Path) -> list[str]:
    """Return what stands between backticks outside of blocks."""
    return re.findall(r"`([^`\n]+)`", FENCED.sub("", document.read_text()))


@documents
def test_settings_that_are_shown_can_be_set(document: Path, tmp_path: Path) -> None:
    for block in blocks_of(document):
        if (
            block.language == "toml"
            and block.words not in (("scenario",), ("sweep",))
            and "[build-system]" not in block.text
        ):
            text = block.text.replace('"0x…"', f'"0x{"11" * 20}"')
            (tmp_path / "holdfast.toml").write_text(text)
            read_control(tmp_path)
            read_settings(tmp_path)


@documents
def test_options_exist(document: Path) -> None:
    named = {option for code in codes(document) for option in re.findall(r"--[a-z][a-z-]*", code)}
    assert named <= OPTIONS


@documents
def test_commands_exist(document: Path) -> None:
    for code in codes(document):
        _, *words = re.split(r"[ |]", code)
        if not code.startswith("holdfast ") or words[0].startswith("-"):
            continue
        found = root_command()
        for word in words:
            if not hasattr(found, "commands"):
                break
            assert word in found.commands, code
            found = found.commands[word]


@documents
def test_variables_and_extras_exist(document: Path) -> None:
    text = document.read_text()
    for variable in re.findall(r"\bHOLDFAST_[A-Z_]+\b", text):
        assert variable in SOURCE
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for several in re.findall(r"holdfast\[([\w,]+)\]", text):
        assert {*several.split(",")} <= extras.keys()


def test_resources_of_the_api_exist_and_none_is_left_out() -> None:
    text = (ROOT / "docs" / "api.md").read_text()
    tables = text[text.index("## What there is") : text.index("## Commands")]
    cells = re.findall(r"^\| (`.*?) \|", tables, re.MULTILINE)
    named = {code.partition("?")[0] for cell in cells for code in re.findall(r"`([^`]+)`", cell)}
    assert {re.sub(r"\{\w+\}", "{}", name) for name in named} == RESOURCES


def test_metrics_of_the_control_plane_exist_and_none_is_left_out(tmp_path: Path) -> None:
    engine = connect(str(tmp_path / "holdfast.db"))
    migrate(engine)
    shown = generate_latest(Metrics(engine, lambda: 0).registry).decode()
    exposed = {*re.findall(r"^# TYPE (\w+) ", shown, re.MULTILINE)}
    text = (ROOT / "docs" / "control.md").read_text()
    named = {*re.findall(r"`(holdfast_\w+)", text)}
    assert named == {name for name in exposed if not name.endswith("_created")}


def test_alerts_exist_and_none_is_left_out() -> None:
    text = (ROOT / "docs" / "control.md").read_text()
    part = text[text.index("## When things go wrong") : text.index("## After a failure")]
    rows = re.findall(r"^\|.*?\|.*?\| `([a-z-]+)`", part, re.MULTILINE)
    assert sorted(rows) == sorted(Kind)
    after = text[text.index("## After a failure") : text.index("## Watching it")]
    assert {*re.findall(r"`(holding-[a-z]+|audit-[a-z]+)`", after)} == {*types.Kind}
