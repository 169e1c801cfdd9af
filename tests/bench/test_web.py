"""What the benchmark of the API measures is there to be measured."""

import pytest

from holdfast.bench import web


@pytest.mark.slow(seconds=10)
def test_every_view_is_loaded_from_each_database() -> None:
    figures = web.measure(count=200, total=20_000, loads=1, say=lambda _: None)
    names = set(web.views(200, 20_000))
    for database in {"sqlite", "postgres"} & figures.keys():
        found = figures[database]
        assert set(found["p95_ms"]) == names
        assert set(found["pages"]["p95_ms"]) == set(web.pages(200, 20_000))
        assert found["scans"] == {}, "the planner chooses the indices by itself"
        assert min(found["processor_ms"].values()) > 0
        assert found["slowest_ms"] == max(found["p95_ms"].values())
        assert found["slowest_over_reference"] > 0
    assert "sqlite" in figures
