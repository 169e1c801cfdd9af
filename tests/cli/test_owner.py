"""The owner's commands before there is a node: a home is made, and missed where there is none."""

import re
import stat
from pathlib import Path

import pytest
from tests.support.command_line import PASSPHRASE, Workplace

COMMANDS = [
    *(
        "init",
        "passphrase",
        "holding add",
        "holding list",
        "put",
        "get",
        "rm",
        "audit now",
        "repair",
    ),
]


@pytest.fixture
def place(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.setenv("HOLDFAST_HOME", str(workplace.directory / "home"))
    return workplace


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_owner_shows_an_example(place: Workplace, command: str) -> None:
    said = re.sub(r"\s+", " ", place.run(*command.split(), "--help").stdout)
    assert f"Example: holdfast {command}" in said


@pytest.mark.parametrize(
    "words",
    [
        "holding add attic http://127.0.0.1:1",
        "holding list",
        "get photos",
        "rm photos",
        "audit now",
        "repair attic",
    ],
)
def test_without_a_home_it_is_told_how_to_make_one(place: Workplace, words: str) -> None:
    sentence = place.run(*words.split()).sentence()
    assert sentence == f"{place.directory / 'home'} is no owner's home: `holdfast init` makes one"
    assert not (place.directory / "home").exists()


@pytest.mark.slow
def test_a_new_home_is_empty_and_says_who_it_is(place: Workplace) -> None:
    made = place.run("init", "--json")
    assert made.code == 0
    assert made.data["home"] == str(place.directory / "home")
    assert re.fullmatch("[0-9a-f]{64}", made.data["owner"])
    listed = place.run("holding", "list")
    assert listed.stdout.startswith("there are no holdings yet")
    for words in ("audit now", "get photos", "rm photos"):
        assert "no holding" in place.run(*words.split()).sentence()
    for path in (place.directory / "home").rglob("*"):
        assert path.is_dir() or PASSPHRASE.encode() not in path.read_bytes()


@pytest.mark.slow
def test_a_home_may_be_named(place: Workplace) -> None:
    other = Path("elsewhere") / "deeper"
    assert place.run("init", "--home", other).code == 0
    assert (place.directory / other / "owner.key").exists()
    assert not (place.directory / "home").exists()


@pytest.mark.slow
def test_another_passphrase_opens_the_same_secret_and_the_old_one_opens_it_no_more(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = place.run("init", "--json").data["owner"]
    key = place.directory / "home" / "owner.key"
    before = key.read_bytes()
    monkeypatch.setenv("HOLDFAST_NEW_PASSPHRASE", "")
    assert "empty" in place.run("passphrase").sentence()
    assert key.read_bytes() == before
    monkeypatch.setenv("HOLDFAST_NEW_PASSPHRASE", "another one")
    changed = place.run("passphrase", "--json")
    assert changed.code == 0
    assert changed.data["owner"] == owner
    assert "does not open" in place.run("passphrase").sentence()
    monkeypatch.setenv("HOLDFAST_PASSPHRASE", "another one")
    assert place.run("passphrase", "--json").data["owner"] == owner
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_an_empty_name_is_refused(place: Workplace) -> None:
    Path("photos").write_bytes(b"photos")
    assert "--name is empty" in place.run("put", "photos", "--name", "").sentence()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="/proc is Linux's")
@pytest.mark.parametrize("words", ["put", "pdp tag --key owner.key"])
def test_a_file_whose_size_is_wrong_is_refused(place: Workplace, words: str) -> None:
    sentence = place.run(*words.split(), "/proc/self/status").sentence()
    assert "it has content, but its size is 0" in sentence
