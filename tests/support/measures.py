"""Measures with figures of one's choice, each with an interval of a quarter around it."""

from dataclasses import fields

from holdfast.model.estimate import Estimate
from holdfast.sim.measures import Measures


def around(value: float) -> Estimate:
    return Estimate(value, 0.75 * value, 1.25 * value)


def measured(**figures: float) -> Measures:
    """Return measures of these figures (`found` within 7 units); every other is 1."""
    found = {field.name: around(figures.get(field.name, 1.0)) for field in fields(Measures)}
    share = figures.get("found", 1.0)
    return Measures(**found | {"detected_within": {7: around(share)}})  # type: ignore[arg-type]
