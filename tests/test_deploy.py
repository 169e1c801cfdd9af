"""What we give to Prometheus and Grafana names metrics that there are."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.simulated_fleet import Clock

from holdfast.control.prometheus import PARTS, Metrics
from holdfast.control.scheduling import guardrails
from holdfast.evidence.leaf import Outcome
from holdfast.storage.database import connect, migrate

DEPLOY = Path(__file__).parents[1] / "deploy"
RULES = yaml.safe_load((DEPLOY / "prometheus-alerts.yml").read_text())["groups"][0]["rules"]
PANELS = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
OUTCOMES = {str(each) for each in Outcome}
VALUES = {
    "outcome": OUTCOMES,
    "part": {*PARTS.values(), "other"},
    "reason": {guardrails.override_names(each)[0] for each in guardrails.Override},
}


def _expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in RULES)
    yield from (target["expr"] for panel in PANELS for target in panel["targets"])


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the names of everything that a worker tells."""
    engine = connect(str(tmp_path_factory.mktemp("deploy") / "holdfast.db"))
    migrate(engine)
    registry = Metrics(engine, Clock()).registry
    families = list(registry.collect())
    engine.dispose()
    kinds = {
        "counter": ("_total",),
        "histogram": ("_bucket", "_sum", "_count"),
        "info": ("_info",),
        "gauge": ("",),
    }
    return {f"{family.name}{end}" for family in families for end in kinds[family.type]}


@pytest.mark.parametrize("expression", sorted(set(_expressions())))
def test_every_metric_that_is_named_exists(expression: str, told: set[str]) -> None:
    named = set(re.findall(r"holdfast_\w+", expression))
    assert named
    assert named <= told


@pytest.mark.parametrize("expression", sorted(set(_expressions())))
def test_every_label_has_values_that_there_are(expression: str) -> None:
    for label, values in re.findall(r"(\w+)=~?\"([^\"]+)\"", expression):
        assert set(values.split("|")) <= VALUES[label]


@pytest.mark.parametrize("expression", sorted(set(_expressions())))
def test_every_expression_is_closed(expression: str) -> None:
    pairs = {")": "(", "]": "[", "}": "{"}
    open_: list[str] = []
    for each in expression:
        if each in pairs.values():
            open_.append(each)
        elif each in pairs:
            assert open_.pop() == pairs[each]
    assert open_ == []


def test_every_rule_has_what_prometheus_and_people_need() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)
    for rule in RULES:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"[1-9]\d*[smhd]", rule.get("for", "1m"))
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert set(rule["annotations"]) == {"summary", "description"}


def test_panels_have_their_own_places() -> None:
    def cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
        at = panel["gridPos"]
        return {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}

    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        assert not taken & cells(panel)
        taken |= cells(panel)
    assert max(x for x, _ in taken) < 24
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
