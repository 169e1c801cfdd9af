"""What documents show of a home is run on one: the owner's guide in its order, and what looks."""

import os
import re
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from tests.docs.commands import DOCUMENTS, ROOT, Command, commands_of
from tests.support.live_service import Site, site
from tests.support.owner_env import PASSPHRASE

from holdfast.cli.app import run
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.settings.models import ControlSettings, Timeouts, Upkeep
from holdfast.durations import MINUTE, SECOND

LOOKING = (
    ("status",),
    ("confidence",),
    ("doctor",),
    ("token",),
    ("evidence", "show"),
    ("evidence", "export"),
    ("policy", "list"),
    ("policy", "fit"),
    ("canary", "list"),
)
# In the order of the documents: one may show what another has made.
SHOWN = [
    command
    for document in DOCUMENTS
    for command in commands_of(document)
    if any(command.words[: len(words)] == words for words in LOOKING)
    and "--home" not in command.words
]
HURRIED = ControlSettings(
    policy="fixed-high",
    rails=Rails(unit=MINUTE, jitter=0.0, surprise=0.0, first=0.0, recovery=14),
    patience=Timeouts(deadline=MINUTE),
    upkeep=Upkeep(idle=20 * SECOND),
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Yield a home with a node, and stand in the folder beside it."""
    monkeypatch.setenv("HOLDFAST_PASSPHRASE", PASSPHRASE.decode())
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    with site(tmp_path, HURRIED) as made, chdir(tmp_path):
        yield made


@pytest.mark.slow
def test_the_owners_guide_is_right(place: Site) -> None:
    Path("photos.tar").write_bytes(os.urandom(5000))
    Path("documents/letters").mkdir(parents=True)
    Path("documents/letters/one").write_bytes(b"a letter")
    commands = [command.words for command in commands_of(ROOT / "docs" / "owner.md")]
    last = commands.index(("holding", "list", "--files"))
    assert commands[0] == ("init",), "the home that is there"
    for words in commands[1 : last + 1]:
        here = [re.sub(r"https?://[^/]+", place.node.url, word) for word in words]
        assert run(here) == 0, here
    assert Path("restored.tar").read_bytes() == Path("photos.tar").read_bytes()
    assert Path("restored/letters/one").read_bytes() == b"a letter"


@pytest.mark.slow
def test_what_looks_at_a_home_runs_as_shown(place: Site) -> None:
    place.holding("attic", b"content" * 100)
    with place.service() as service:
        place.run(service, 6 * MINUTE)
    assert run(["evidence", "export", "--out", "audits.bundle"]) == 0
    for command in {each.words: each for each in SHOWN}.values():
        if "export" in command.words:
            Path("audits.bundle").unlink()
        assert run(_here(command, place)) in {0, 1}, command


def _here(command: Command, place: Site) -> list[str]:
    """Return the words with what is this home's own."""
    holding = f"{place.audits()[0].holding.id:x}"
    return [holding if re.fullmatch(r"[0-9a-f]+\.\.\.[0-9a-f]+", w) else w for w in command.words]
