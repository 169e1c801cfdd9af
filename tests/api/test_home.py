"""A home and its evidence through the public API: a real node, real audits, a real log."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.blocks import blocks_of
from tests.support.docstrings import run_examples
from tests.support.live_service import SECTORS, Site, site
from tests.support.owner_env import PASSPHRASE, flip

import holdfast
from holdfast.api import home as api_home
from holdfast.durations import DAY, MINUTE
from holdfast.errors import InputError, PassphraseError
from holdfast.evidence.leaf import Outcome
from holdfast.owner import add_holding

DOCUMENT = Path(__file__).parents[2] / "docs" / "owner.md"
CONTENT = random.Random(5).randbytes(20_000)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Yield a home with two empty holdings, from whose folder the program runs."""
    monkeypatch.chdir(tmp_path)
    with site(tmp_path) as running:
        for name in ("attic", "cellar"):
            add_holding(running.home, name, running.node.url, sectors=SECTORS, encrypted=False)
        yield running


@pytest.mark.slow
def test_the_examples_run_on_a_real_home(place: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("photos.tar").write_bytes(CONTENT)
    monkeypatch.setenv("HOME", str(place.folder))
    where = place.folder / ".local/share/holdfast"
    where.parent.mkdir(parents=True)
    where.symlink_to(place.home.folder)
    assert run_examples(holdfast.open_home, passphrase=PASSPHRASE.decode()) == 2
    with place.service():
        pass  # which makes the database
    add_holding(place.home, "shed", place.node.url, sectors=SECTORS, encrypted=False)
    home = holdfast.open_home(place.home.folder, PASSPHRASE)
    assert run_examples(api_home.Home, home=home, url=place.node.url) == 13
    Path("restored.tar").unlink()
    (block,) = [block for block in blocks_of(DOCUMENT) if block.language == "python"]
    exec(compile(block.text, DOCUMENT, "exec"), {"passphrase": PASSPHRASE})  # noqa: S102
    assert Path("restored.tar").read_bytes() == CONTENT


@pytest.mark.slow
def test_damage_is_found_and_repaired(place: Site) -> None:
    Path("photos.tar").write_bytes(CONTENT)
    home = holdfast.open_home(place.home.folder, PASSPHRASE)
    home.put("photos.tar", to=["attic"])
    with place.home.holding("attic") as holding:
        segment = place.node.stored(holding, "data")[0]
        flip(segment, *range(0, segment.stat().st_size, 50))
    (audit,) = home.audit("attic")
    assert audit.outcome is Outcome.FAILED
    assert home.get("photos.tar", "lost.tar").lost
    assert not Path("lost.tar").exists()
    repair = home.repair("attic", sources=["photos.tar"])
    assert (len(repair.files), repair.complete) == (1, True)
    assert home.get("photos.tar", "whole.tar").lost == ()


@pytest.mark.slow
def test_evidence_verifies_until_it_is_changed(place: Site) -> None:
    place.holding("loft", CONTENT)
    with place.service() as service:
        place.run(service, MINUTE)
        place.times.now += 15 * DAY
        place.run(service, MINUTE)
    assert place.verified().fine
    with place.log() as log:
        key = str(log.verifier)
    bundle = place.folder / "bundle"
    bundle.rename("audits.bundle")
    assert run_examples(holdfast.verify_evidence, key=key) == 2
    assert holdfast.verify_evidence(place.home.folder, key).audits > 0
    assert holdfast.verify_evidence("audits.bundle", key, kept=["audits.bundle"]).fine

    text = Path("audits.bundle").read_text()
    Path("audits.bundle").write_text(text.replace('"outcome":"passed"', '"outcome":"failed"', 1))
    assert not holdfast.verify_evidence("audits.bundle", key).fine


@pytest.mark.slow
def test_bad_arguments_are_refused_in_one_sentence(place: Site) -> None:
    Path("photos.tar").write_bytes(CONTENT)
    home = holdfast.open_home(place.home.folder, PASSPHRASE)
    home.put("photos.tar", to=["attic"])
    with pytest.raises(PassphraseError):
        holdfast.open_home(place.home.folder, "another")
    with pytest.raises(InputError, match="is no owner's home"):
        holdfast.open_home("nowhere", PASSPHRASE)
    with pytest.raises(InputError, match="cupboard"):
        home.put("photos.tar", to=["cupboard"])
    with pytest.raises(InputError, match="no holding has a file"):
        home.get("letters.tar", "letters.tar")
    with pytest.raises(InputError, match="exists already"):
        home.get("photos.tar", "photos.tar")
    with pytest.raises(InputError, match="samples must lie between 1 and"):
        home.audit("attic", samples=10**6)
    with pytest.raises(InputError, match="start `holdfast serve`"):
        home.status()
    with pytest.raises(InputError):
        holdfast.verify_evidence("photos.tar", "no key")
