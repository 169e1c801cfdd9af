"""The benchmark of the control plane measures cycles that are whole; not how fast they are."""

import pytest
from sqlalchemy import Engine, select

from holdfast.bench import postgres
from holdfast.bench.control import Crew, measure, sqlite_twins
from holdfast.bench.sql_recorder import Tape, replay
from holdfast.control.settings.models import Pace
from holdfast.errors import InputError
from holdfast.pdp import SecretKey
from holdfast.storage.database import transaction
from holdfast.storage.schema import audits, holdings, leaves

COUNT = 2500


def contents(engine: Engine) -> list[list[tuple[object, ...]]]:
    with transaction(engine) as connection:
        return [
            [tuple(row) for row in connection.execute(select(table).order_by(table.c.id))]
            for table in (holdings, audits, leaves)
        ]


@pytest.mark.slow
def test_ratios_are_those_of_the_rates_beside_them() -> None:
    steps: list[str] = []
    found = measure(count=COUNT, rounds=2, say=steps.append)
    assert found["holdings"] == COUNT
    assert found["decide_10k_over_matmul"] > 1
    kinds = ["sqlite", "postgres"] if postgres.installed() else ["sqlite"]
    for kind in kinds:
        figures = found[kind]
        assert figures["over_bare"] == figures["cycles_per_s"] / figures["bare_per_s"]
        assert f"{kind}: entering {COUNT} holdings" in steps
    assert steps.count(f"{COUNT} of {COUNT} holdings are entered") == len(kinds)


@pytest.mark.slow
def test_where_postgresql_is_not_installed_its_figures_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[str] = []
    monkeypatch.setattr(postgres, "BINARIES", [])
    found = measure(count=600, rounds=1, say=steps.append)
    assert "sqlite" in found
    assert "postgres" not in found
    assert any("left out" in step for step in steps)


def test_the_bare_database_ends_with_the_rows_of_ours() -> None:
    crew = Crew(SecretKey.generate(16))
    with sqlite_twins(crew, 600, lambda _step: None) as (ours, bare):
        assert contents(ours) == contents(bare)
        worker, tape = crew.worker(ours), Tape(ours)
        assert len(worker.tick().concluded) == Pace().batch
        said = tape.take()
        with bare.connect() as twin:
            replay(twin.connection.driver_connection, said)
        assert len(contents(ours)[1]) == Pace().batch
        assert contents(bare) == contents(ours)


def test_a_database_with_less_than_a_batch_is_refused() -> None:
    with pytest.raises(InputError, match="at least a batch"):
        measure(count=255, rounds=1, say=lambda _step: None)
