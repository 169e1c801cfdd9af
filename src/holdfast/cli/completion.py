"""What the shell offers while a command is typed: names of policies, scenarios and holdings.

Completion must be quick and never fail: where a home can't be read, nothing is offered.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from holdfast.errors import HoldfastError


def policies(incomplete: str) -> list[str]:
    from holdfast.policy.registry import NAMES  # noqa: PLC0415 - NumPy takes a tenth of a second

    return _beginning(NAMES, incomplete)


def scenarios(incomplete: str) -> list[str]:
    from holdfast.model.scenario import SCENARIOS  # noqa: PLC0415 - as above

    return _beginning(SCENARIOS, incomplete)


def holdings(incomplete: str) -> list[str]:
    """Offer the holdings of the home in the environment, else of the usual one."""
    from holdfast.cli.owner import DEFAULT_HOME  # noqa: PLC0415 - which imports this
    from holdfast.owner import catalogue_in  # noqa: PLC0415 - as above

    folder = Path(os.environ.get("HOLDFAST_HOME", DEFAULT_HOME)).expanduser()
    try:
        with catalogue_in(folder) as catalogue:
            return _beginning((each.name for each in catalogue.holdings()), incomplete)
    except (HoldfastError, OSError):
        return []


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
