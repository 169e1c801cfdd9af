"""What users may set on the Gymnasium environments while they run: checked, never ignored."""

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

from holdfast.errors import InputError

OPTIONS = ("malicious", "multiplier")
ASSIGNMENT = (
    "multiplier is read-only, because an assignment to a wrapper would not reach the environment:"
    " call set_multiplier, through wrappers by env.get_wrapper_attr('set_multiplier')(5.0),"
    " venv.env_method('set_multiplier', 5.0) or envs.call('set_multiplier', 5.0)"
)


def check_multiplier(value: object) -> float:
    """Return the price of a miss as a number."""
    if isinstance(value, Real) and math.isfinite(value) and float(value) >= 0:
        return float(value)
    raise InputError(f"the multiplier is a number of at least 0, not {value!r}")


def check_options(options: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the options of a reset; refuse one that would be ignored."""
    chosen = options or {}
    for name in chosen:
        if name not in OPTIONS:
            raise InputError(
                f"there is no option {name!r} of a reset: the options are {' and '.join(OPTIONS)}"
            )
    return chosen
