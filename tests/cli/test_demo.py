"""`holdfast demo` tells its story, and the story is true."""

import json
from pathlib import Path

import pytest

from holdfast.cli.app import run


def test_the_damage_is_found_located_and_healed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--size", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["honest_audit"]["passed"]
    assert told["honest_audit"]["bytes_read"] == 460 * 496
    assert [audit["passed"] for audit in told["audits"]][-1] is False
    assert told["located"]["blocks"] == told["damaged"]
    assert told["healed"]["passed"]
    assert told["healed"]["passed_in_public"]


def test_people_read_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--size", "1", "--seed", "3"]) == 0
    story = capsys.readouterr().out
    assert "FAILED" in story
    assert "just those that were lost" in story


def test_the_files_can_be_kept_but_replace_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    assert run(["demo", "--size", "1", "--keep", str(kept)]) == 0
    assert (kept / "archive.bin").read_bytes() == (kept / "replica.bin").read_bytes()
    capsys.readouterr()
    assert run(["demo", "--size", "1", "--keep", str(kept)]) == 2
    assert "exists already" in capsys.readouterr().err
