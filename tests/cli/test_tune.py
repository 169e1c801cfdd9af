"""`holdfast tune` and `evaluate --scenario operation`, as users give them."""

import pytest
from tests.support.command_line import Workplace


@pytest.mark.slow
def test_what_is_tuned_can_be_evaluated(workplace: Workplace) -> None:
    line = ("tune", "--exposure", "0.2", "--nodes", "300", "--kind", "constant", "--json")
    (tuned,) = workplace.run(*line).data["tuned"]
    assert tuned["name"].startswith("constant:")
    measured = workplace.run(
        *("evaluate", "--scenario", "operation", "--policy", tuned["name"]),
        *("--episodes", "300", "--seed", "1", "--json"),
    ).data
    assert measured["audits_per_year"] == tuned["audits_per_year"]
    assert measured["late_per_onset"].keys() == {"0.001", "0.01"}
    assert measured["parameters"]["blocks"] == 100_000


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("tune --exposure 0.1 --kind best", "constant, two-speed, bayes, clairvoyant"),
        ("tune --exposure 0.1 --scenario paper", "operation"),
        ("tune --exposure -1 --nodes 100", "above 0"),
        ("evaluate --scenario operation --policy fixed-high", "constant:DAYS,BLOCKS"),
        ("evaluate --scenario operation --policy constant:14,460 --plot a.png", "no --plot"),
        ("evaluate --scenario operation:day=3 --policy constant:14,460", "day"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(
    workplace: Workplace, line: str, named: str
) -> None:
    finished = workplace.run(*line.split())
    assert finished.code == 2
    assert named in finished.sentence()
