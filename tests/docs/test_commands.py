"""Commands that documents show exist as they are shown, and those that need nothing else run.

What needs nodes, a chain and workers is run by `test_guide.py`.
"""

import os
import re
import shutil
from pathlib import Path

import pytest
import typer
from tests.docs.blocks import blocks_of
from tests.docs.commands import DOCUMENTS, ROOT, Command, commands_of

from holdfast.cli.app import root_command, run
from holdfast.policy.shipped import shipped_folder

SHOWN = [command for document in DOCUMENTS for command in commands_of(document)]
# Simulations are shortened to so many episodes; what they print is checked elsewhere.
EPISODES = "20"
ALONE = [each for each in SHOWN if each.words[0] in {"evaluate", "paper"}]
# Not what takes long (a plan in `field` takes 20 seconds) or runs on other machines.
SHORT = [command for command in ALONE if not {"field", "--cluster"} & {*command.words}]


@pytest.mark.parametrize("command", SHOWN, ids=str)
def test_a_command_in_the_documents_is_one_of_ours(command: Command) -> None:
    """Parse it with its options and their values, as running it would."""
    found, words = root_command(), list(command.words)
    with found.make_context("holdfast", words[:1], resilient_parsing=True) as context:
        while hasattr(found, "resolve_command"):
            _, found, words = found.resolve_command(context, words)
        try:
            found.make_context(found.name, words)
        except typer.BadParameter as error:
            if "does not exist" not in error.format_message():  # a folder of the reader's
                raise


def lay_out(folder: Path) -> None:
    """Put the files of the guide where a reader has them; a shipped checkpoint is the trained."""
    shutil.copytree(ROOT / "docs" / "examples", folder, dirs_exist_ok=True)
    shutil.copytree(shipped_folder("dqn", "paper"), folder / "runs" / "ce" / "seed-0")
    for block in blocks_of(ROOT / "docs" / "extending.md"):
        if block.words == ("scenario",):
            (folder / "mine.toml").write_text(block.text)


@pytest.mark.slow
@pytest.mark.parametrize("command", SHORT, ids=str)
def test_what_needs_no_home_runs_as_shown(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lay_out(tmp_path)
    words = list(command.words)
    if "--episodes" in words:
        words[words.index("--episodes") + 1] = EPISODES
    elif words[0] == "evaluate":
        words += ["--episodes", EPISODES]
    assert run(words) == 0


@pytest.mark.slow
def test_the_primitive_works_as_the_readme_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_PASSPHRASE", "correct horse")
    Path("photos.tar").write_bytes(os.urandom(1_000_000))
    told = [each.words for each in commands_of(ROOT / "README.md") if each.words[0] == "pdp"]
    assert len(told) == 6
    for words in told:
        assert run(list(words)) == 0, words


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    text = document.read_text()
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        place = document.parent / path if path else document
        assert place.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", place.read_text(), re.MULTILINE)
            known = {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
            assert anchor in known, target
