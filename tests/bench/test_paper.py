"""What a command costs is counted with the processes that it starts."""

import pytest
from benchmarks.paper import EXPERIMENTS, cost_of
from tests.support.processes import end_with_tests

from holdfast.cli.paper import Experiment
from holdfast.errors import HoldfastError


@pytest.mark.slow
def test_a_command_has_a_time_and_a_memory() -> None:
    release = end_with_tests()
    cost = cost_of(["paper", "table1"])
    assert cost["seconds"] > 0
    assert cost["processor_seconds"] > 0
    assert 10 < cost["largest_process_mib"] < 10_000
    with pytest.raises(HoldfastError, match="ended with 2"):
        cost_of(["paper", "shift", "--scenario", "drift"])
    release()


def test_every_experiment_is_measured() -> None:
    names = {words[0] for words in EXPERIMENTS.values()}
    assert names == {str(experiment) for experiment in Experiment} - {"all"}
