"""`holdfast bench` prints what was measured, as data and as a table."""

import json

import pytest

from holdfast.bench import ledger
from holdfast.cli.app import run


@pytest.mark.slow
def test_figures_are_printed_as_data_and_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    line, figure = "bench pdp --rounds 1 --large-mib 1", "tag_two_processes_over_one"
    assert run([*line.split(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[figure] > 0
    assert run(line.split()) == 0
    shown = capsys.readouterr()
    assert figure in shown.out
    assert shown.err, "it says what it does meanwhile"


def test_gas_is_printed_by_the_name_of_its_call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ledger, "measure", lambda say: say("…") or {"gas": {"pass_s1": 31_500}})
    assert run(["bench", "ledger"]) == 0
    assert "gas.pass_s1" in capsys.readouterr().out
