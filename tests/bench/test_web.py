"""What the benchmark of the API measures is there to be measured."""

from holdfast.bench import web


def test_every_view_is_loaded_from_each_database() -> None:
    figures = web.measure(count=20, total=1000, loads=2, say=lambda _: None)
    names = set(web.views(20, 1000))
    for database in {"sqlite", "postgres"} & figures.keys():
        found = figures[database]
        assert set(found["p95_ms"]) == names
        assert set(found["pages"]["p95_ms"]) == set(web.pages(20, 1000))
        assert found["slowest_ms"] == max(found["p95_ms"].values())
        assert found["slowest_over_reference"] > 0
    assert "sqlite" in figures
