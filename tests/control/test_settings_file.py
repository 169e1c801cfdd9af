"""`holdfast.toml` is checked: a fault is one sentence that names the key, and no secret shows."""

import os
from dataclasses import fields
from pathlib import Path

import pytest

from holdfast.control.settings.models import ControlSettings, read_control
from holdfast.errors import InputError
from holdfast.owner.settings import EvmSettings, HomeSettings, read_settings
from holdfast.settings_file import Table, as_written

EVM = f'[ledger]\nkind = "evm"\nurl = "http://u:hunter2@h"\ncontract = "{"ab" * 20}"\n'


def read_both(home: Path) -> None:
    read_settings(home)
    read_control(home)


def refusal(home: Path, text: str) -> str:
    path = home / "holdfast.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_both(home)
    assert caught.value.__cause__ is None
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[contrl]", "unknown table or key 'contrl'; did you mean 'control'?"),
        ("[other]", "unknown table or key 'other': there is home, ledger, control"),
        ("control = 5", "control is not a table"),
        ("[control]\nrails = 5", "control.rails is not a table"),
        ("[control]\npolcy = 'x'", "unknown key 'polcy' in [control]; did you mean 'policy'?"),
        (
            "[control.rails]\nsuprise = 0.1\njitter = 5",
            "unknown key 'suprise' in [control.rails]; did you mean 'surprise'?",
        ),
        (
            "[control.upkeep]\nx = 1",
            "unknown key 'x' in [control.upkeep]: there is enrol, anchor, idle",
        ),
        ("[control]\npolicy = 5", "policy in [control] must be a text, not 5"),
        ("[control]\npolicy = ''", "policy in [control] must be a text, not ''"),
        ("[control]\nscenario = 'moon'", "scenario in [control] must be one of paper"),
        ("[control]\nscenario = ['paper']", "scenario in [control] must be one of paper"),
        (
            "[control]\nsettlement = 'none'",
            "settlement in [control] must be 'single' or 'batch', not 'none'",
        ),
        (
            "[control.rails]\nunit = 5",
            'unit in [control.rails] must be a time such as "90 seconds" or "1 day", not 5',
        ),
        ("[control.rails]\nunit = '0 days'", "unit in [control.rails] must be a time"),
        ("[control.rails]\nshortest = 0", "shortest in [control.rails] must be at least 1, not 0"),
        (
            "[control.rails]\nshortest = 1.0",
            "shortest in [control.rails] must be a whole number, not 1.0",
        ),
        (
            "[control.rails]\nshortest = true",
            "shortest in [control.rails] must be a whole number, not True",
        ),
        (
            "[control.rails]\nshortest = 15",
            "[control.rails]: shortest must not be above longest",
        ),
        ("[control.rails]\njitter = 1", "jitter in [control.rails] must be below 1, not 1"),
        ("[control.rails]\njitter = nan", "jitter in [control.rails] must be a number, not nan"),
        (
            "[control.rails]\nsurprise = -0.1",
            "surprise in [control.rails] must be at least 0, not -0.1",
        ),
        ("[control.rails]\nstale_after = '3'", "stale_after in [control.rails] must be a number"),
        ("[control.rails]\nfail_safe = [1]", "fail_safe in [control.rails] must be an interval"),
        ("[control.rails]\nfail_safe = [2, 0.3]", "fail_safe in [control.rails] (2, 0.3) is not"),
        ("[control.rails]\nquiet = '22:00-06:00'", "quiet in [control.rails] must be a list"),
        ("[control.rails]\nquiet = ['late']", "quiet in [control.rails] 'late' is no quiet window"),
        ("[control.rails]\nquiet = [{start = 1}]", "quiet in [control.rails] must be a text"),
        ("[control.responses]\nratio = 0", "ratio in [control.responses] must be above 0, not 0"),
        (
            "[control.responses]\nfailed = ['shout']",
            "failed in [control.responses] must be 'follow-up', 'localise'",
        ),
        ("[control.responses]\ndelay = 'soon'", "delay in [control.responses] must be a time"),
        (
            "[control.web]\ntrust_loopback = 1",
            "trust_loopback in [control.web] must be true or false, not 1",
        ),
        (
            f"[control.rails]\nlongest = {10**27}",
            f"longest in [control.rails] must be below 1e+09, not {10**27}",
        ),
        (
            '[control.metrics]\nlisten = "[::1"',
            'listen in [control.metrics] must be a host and a port such as "127.0.0.1:9470"',
        ),
        (
            '[control.web]\nlisten = "[::1"',
            'listen in [control.web] must be a host and a port such as "127.0.0.1:9470"',
        ),
        ('[control.web]\nlisten = "[::1]"', "listen in [control.web] must be a host and a port"),
        ('[control.web]\nlisten = "a b:80"', "listen in [control.web] must be a host and a port"),
        ("[control.metrics]\nlisten = 9470", "listen in [control.metrics] must be a text"),
        (EVM, "[ledger] needs the key 'keystore'"),
        (f"{EVM}keystore = 5", "keystore in [ledger] must be a text"),
        (f"{EVM}keystore = 'k'\nurls = ''", "unknown key 'urls' in [ledger]; did you mean 'url'?"),
    ],
)
def test_a_fault_is_one_sentence_that_names_the_key(
    tmp_path: Path, text: str, sentence: str
) -> None:
    told = refusal(tmp_path, text)
    assert told.startswith(sentence)
    assert "\n" not in told
    assert "hunter2" not in told


SECRETS = {("home", "database"), ("control", "database"), ("alerts", "webhook"), ("evm", "url")}


def secret_fields(table: type[Table], name: str) -> set[tuple[str, str]]:
    """Return the fields that are left out of `repr`, here and in the tables below."""
    hidden = {(name, field.name) for field in fields(table) if not field.repr}  # type: ignore[arg-type]
    for field in fields(table):  # type: ignore[arg-type]
        if isinstance(field.type, type) and issubclass(field.type, Table):
            hidden |= secret_fields(field.type, field.name)
    return hidden


def test_the_fields_that_may_hold_a_secret_are_left_out_of_repr() -> None:
    tables = {"home": HomeSettings, "control": ControlSettings, "evm": EvmSettings}
    assert set().union(*(secret_fields(table, name) for name, table in tables.items())) == SECRETS


@pytest.mark.parametrize("value", ['["hunter2"]', "{hunter2 = 1}", '"mysql://me:hunter2@host"'])
@pytest.mark.parametrize(
    "line", ["[home]\ndatabase", "[control.alerts]\nwebhook", "[ledger]\nkind = 'evm'\nurl"]
)
def test_no_error_shows_a_secret(tmp_path: Path, line: str, value: str) -> None:
    assert "hunter2" not in refusal(tmp_path, f"{line} = {value}")


def test_what_is_read_shows_no_secret(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text(
        '[control]\ndatabase = "postgresql://me:hunter2@host/name?password=hunter2"\n'
        f'[control.alerts]\nwebhook = "https://host/hunter2"\n{EVM}keystore = "k"\n'
    )
    control, settings = read_control(tmp_path), read_settings(tmp_path)
    assert settings.evm is not None
    for shown in (control, settings, as_written(control), as_written(settings.evm)):
        assert "hunter2" not in f"{shown!r} {shown}"
    assert as_written(control)["database"] == "postgresql://host/name"


@pytest.mark.parametrize("text", ["[::1]:80", "::1:80", "127.0.0.1:80", "a-host.example:80"])
def test_a_host_is_a_name_or_an_address(tmp_path: Path, text: str) -> None:
    (tmp_path / "holdfast.toml").write_text(f'[control.web]\nlisten = "{text}"')
    host = text.removesuffix(":80").strip("[]")
    assert read_control(tmp_path).web.listen == (host, 80)


@pytest.mark.timeout(20)
def test_a_pipe_in_place_of_the_file_is_refused_without_waiting(tmp_path: Path) -> None:
    """Before: reading it waited for ever."""
    os.mkfifo(tmp_path / "holdfast.toml")
    with pytest.raises(InputError, match=r"holdfast\.toml is not a regular file"):
        read_both(tmp_path)
