"""Every command of the tree: its help, its answer to a wrong argument, and its JSON."""

import json
import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import chdir, closing
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.support.command_line import Workplace
from tests.support.live_service import Site, site
from tests.support.owner_env import PASSPHRASE

from holdfast import atomic
from holdfast.cli.reference import PAGES, commands
from holdfast.cli.terminal import PASSPHRASE_VARIABLE
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.settings.models import ControlSettings, Timeouts, Upkeep
from holdfast.durations import MINUTE, SECOND
from holdfast.owner.catalogue import Catalogue

COMMANDS = dict(commands())
NAMES = [" ".join(words) for words in COMMANDS]
DOCS = Path(__file__).parents[2] / "docs"
TESTS = Path(__file__).parents[1]

# What prints JSON in the prepared home; each leaves it so that the next can run.
HERE = [
    "init --home other",
    "passphrase --home other --new-passphrase-file file",
    "holding list --files",
    "put file --to attic",
    "get file --out got",
    "audit now attic --samples 5",
    "repair attic",
    "rm file --from attic",
    "status",
    "doctor",
    "config show",
    "confidence",
    "audit release attic",
    "audit ask attic",
    "canary list",
    "policy list",
    "policy show champion",
    "policy add fixed-low",
    "policy challenge {version}",
    "policy shadow",
    "policy withdraw",
    "policy history",
    "token create grafana",
    "token list",
    "token revoke grafana",
    "evidence show",
    "evidence key",
    "evidence export --out bundle",
    "ledger show --file home/ledger-4.db",
    "node keygen --out node2.key",
    "pdp keygen --out owner.key --sectors 2",
    "pdp tag file --key owner.key",
    "pdp challenge --samples 5 --out challenge.json",
    "pdp prove challenge.json file --out proof.json",
    "pdp verify challenge.json proof.json --key owner.key",
    "pdp locate file --key owner.key",
    "evaluate --policy fixed-low --episodes 5",
    "backup backup.tar",
    "restore backup.tar --home restored",
]
# What other tests run with --json.
ELSEWHERE = {
    "serve": "control/test_serve.py",
    "demo": "cli/test_demo.py",
    "plan": "cli/test_plan.py",
    "train": "cli/test_train.py",
    "aggregate": "cli/test_train.py",
    "tune": "cli/test_tune.py",
    "policy import-sb3": "learn/test_sb3_import.py",
    "holding add": "owner/test_commands.py",
    "holding refresh": "direct/test_commands.py",
    "holding accept": "direct/test_commands.py",
    "holding node-key": "direct/test_commands.py",
    "holding set-url": "owner/test_holding_commands.py",
    "holding rename": "owner/test_holding_commands.py",
    "holding rm": "owner/test_holding_commands.py",
    "canary plant": "control/test_canaries.py",
    "canary lift": "control/test_canaries.py",
    "policy fit": "cli/test_retrain.py",
    "policy retrain": "cli/test_retrain.py",
    "policy promote": "control/test_promotion.py",
    "policy rollback": "control/test_promotion.py",
    "pdp forget": "cli/test_pdp.py",
    "node serve": "owner/test_story.py",
    "evidence verify": "cli/test_evidence.py",
    **dict.fromkeys(("ledger keygen", "ledger deploy"), "cli/test_ledger.py"),
    **{name: "cli/test_bench.py" for name in NAMES if name.startswith("bench ")},
    "paper": "cli/test_paper.py",
}
HURRIED = ControlSettings(
    policy="fixed-high",
    rails=Rails(unit=MINUTE, jitter=0.0, surprise=0.0, first=0.0, recovery=14),
    patience=Timeouts(deadline=MINUTE),
    upkeep=Upkeep(idle=20 * SECOND),
)


@dataclass(frozen=True)
class Place:
    site: Site
    folder: Path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Yield a home with a holding that was audited a few times."""
    folder = tmp_path_factory.mktemp("tree")
    with site(folder, HURRIED) as made:
        made.holding("attic", b"content" * 100)
        with made.service() as service:
            made.run(service, 3 * MINUTE)
        (folder / "file").write_bytes(b"another" * 100)
        yield Place(made, folder)


@pytest.fixture
def desk(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Workplace]:
    monkeypatch.setenv(PASSPHRASE_VARIABLE, PASSPHRASE.decode())
    monkeypatch.setenv("HOLDFAST_HOME", str(place.site.home.folder))
    with chdir(place.folder):
        yield Workplace(place.folder, capsys)


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_help_with_an_example(name: str, workplace: Workplace) -> None:
    shown = workplace.run(*name.split(), "--help")
    assert shown.code == 0
    assert f"Example: holdfast {name}" in re.sub(r"\s+", " ", shown.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_named_in_one_sentence(name: str, workplace: Workplace) -> None:
    assert "--nonsense" in workplace.run(*name.split(), "--nonsense").sentence()


NUMBERS = [
    (" ".join(words), option.opts[0])
    for words, command in COMMANDS.items()
    for option in command.params
    if type(option.default) in {int, float} and option.param_type_name == "option"
]


@pytest.mark.parametrize(("name", "option"), NUMBERS)
def test_a_value_that_is_no_number_is_named_in_one_sentence(
    name: str, option: str, workplace: Workplace
) -> None:
    assert workplace.run(*name.split(), option, "nonsense").sentence()


def test_every_command_has_json_and_is_shown_to_print_it() -> None:
    for command in COMMANDS.values():
        assert any("--json" in each.opts for each in command.params)
    here = {name for name in NAMES for line in HERE if f"{line} ".startswith(f"{name} ")}
    assert here | set(ELSEWHERE) == set(NAMES)
    for name, path in ELSEWHERE.items():
        words = (TESTS / path).read_text()
        assert "--json" in words, name
        # All benchmarks print by one function.
        assert name.split()[-1] in words or name.split()[0] == "bench", name


@pytest.mark.slow
def test_json_is_all_that_is_printed(desk: Workplace, place: Place) -> None:
    quarantine(place.site.home.folder)
    told: dict[str, Any] = {}
    for line in HERE:
        finished = desk.run(*line.format(**told).split(), "--json")
        assert finished.code in {0, 1}, (line, finished)
        answer = json.loads(finished.stdout)
        assert isinstance(answer, dict), line
        told |= {"version": answer["version"]} if line.startswith("policy add") else {}


def quarantine(home: Path) -> None:
    with closing(sqlite3.connect(home / "holdfast.db")) as database:
        database.execute("UPDATE holdings SET quarantined = 1")
        database.commit()


@pytest.mark.parametrize("name", PAGES)
def test_the_reference_is_up_to_date(name: str) -> None:
    told = (DOCS / "reference" / name).read_text()
    assert told == PAGES[name](), "run `make reference`"


class Interruption:
    """Ctrl-C after so many lines of what writes files."""

    def __init__(self, lines: int) -> None:
        self.left = lines

    def trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename != atomic.__file__:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self.trace


WRITING = {
    "init --home {new}": "{new}/owner.key",
    "backup {new}": "{new}",
    "restore saved.tar --home {new}": "{new}/owner.key",
    "evidence export --out {new}": "{new}",
    "get attic --out {new}": "{new}",
    "pdp keygen --out {new}": "{new}",
    "node keygen --out {new}": "{new}",
}


@pytest.mark.slow
@pytest.mark.parametrize("moment", [9, 17])
@pytest.mark.parametrize("line", WRITING)
def test_an_interrupted_command_leaves_nothing_half_written(
    line: str, moment: int, desk: Workplace, place: Place
) -> None:
    if not (place.folder / "saved.tar").exists():
        assert desk.run("backup", "saved.tar").code == 0
    new = f"new-{list(WRITING).index(line)}-{moment}"
    words = line.format(new=new).split()
    before = set(place.folder.iterdir())
    previous = sys.gettrace()
    sys.settrace(Interruption(moment).trace)
    try:
        interrupted = desk.run(*words)
    finally:
        sys.settrace(previous)
    assert interrupted.code in {0, 130}
    if interrupted.code == 130:
        assert set(place.folder.iterdir()) - before <= {place.folder / new}
        assert not list(place.folder.glob(f"{new}/.*.part"))
        if not (place.folder / WRITING[line].format(new=new)).exists():
            again = desk.run(*words)
            assert again.code == 0, again
    assert (place.folder / WRITING[line].format(new=new)).exists()


def test_an_interrupted_put_goes_on(desk: Workplace, place: Place) -> None:
    (place.folder / "late").write_bytes(b"late" * 500)
    for moment in (3, 12, 20):
        previous = sys.gettrace()
        sys.settrace(Interruption(moment).trace)
        try:
            assert desk.run("put", "late", "--to", "attic").code in {0, 130}
        finally:
            sys.settrace(previous)
    assert desk.run("put", "late", "--to", "attic").code == 0
    with closing(Catalogue.open(place.site.home.address)) as catalogue:
        assert not catalogue.intents("attic")
        assert "late" in {file.name for file in catalogue.files("attic")}
