"""The settings in effect: complete, as the file would write them, and without secrets."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.command_line import Workplace
from tests.support.owner_env import PASSPHRASE, QUICK

from holdfast.cli.terminal import PASSPHRASE_VARIABLE
from holdfast.control.settings.models import ControlSettings, read_control
from holdfast.control.settings.show import effective_settings
from holdfast.owner import Home

CHAIN = f"""
[home]
database = "postgresql://me:hunter2@db.example/holdfast"
[ledger]
kind = "evm"
url = "https://user:hunter2@rpc.example/v3/hunter2"
contract = "{"ab" * 20}"
keystore = "account.json"
[control]
policy = "heuristic"
[control.rails]
quiet = ["22:00-06:30"]
[control.alerts]
webhook = "https://hooks.example/hunter2"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return Home.create(tmp_path / "home", PASSPHRASE, QUICK).folder


def toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def test_the_defaults_written_into_the_file_change_nothing(home: Path) -> None:
    shown = [each for each in effective_settings(home) if each.name.startswith("control.")]
    assert {each.source for each in shown} == {"default"}
    lines = [f"{each.name} = {toml(each.value)}" for each in shown if each.value is not None]
    (home / "holdfast.toml").write_text("\n".join(lines))
    assert read_control(home) == ControlSettings()
    told = {each.name: each.source for each in effective_settings(home)}
    assert all(told[each.name] == "file" for each in shown if each.value is not None)


def test_secrets_are_not_shown_and_sources_are(
    home: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (home / "holdfast.toml").write_text(CHAIN)
    monkeypatch.setenv(PASSPHRASE_VARIABLE, "hunter2")
    monkeypatch.setenv("HOLDFAST_HOME", str(home))
    desk = Workplace(tmp_path, capsys)
    found = desk.run("config", "show", "--json")
    told = {each["name"]: (each["value"], each["source"]) for each in found.data["settings"]}
    assert told["home"] == (str(home), "environment")
    assert told["home.database"] == ("postgresql://db.example/holdfast", "file")
    assert "control.database" not in told, "it is another name for home.database"
    assert told["ledger.url"] == ("https://rpc.example", "file")
    assert told["control.policy"] == ("heuristic", "file")
    assert told["control.rails.quiet"] == (["22:00-06:30"], "file")
    assert told["control.rails.unit"] == ("1 day", "default")
    shown = desk.run("config", "show", "--home", home)
    assert ["home", "flag", str(home)] in [line.split() for line in shown.stdout.splitlines()]
    assert "hunter2" not in found.stdout + shown.stdout
