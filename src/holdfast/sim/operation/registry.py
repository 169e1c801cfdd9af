"""Policies and scenarios of the operator's world, by the names that users give them."""

import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from holdfast.errors import InputError
from holdfast.model.operation import OPERATION, Operation
from holdfast.sim.operation.bayes import BayesIndex
from holdfast.sim.operation.policies import Clairvoyant, Constant, OperationPolicy, TwoSpeed

FORMS = (
    "constant:DAYS,BLOCKS, two-speed:DAYS,BLOCKS,DAYS,BLOCKS (after a pass, after a failure),"
    " bayes:PRICE and clairvoyant:PRICE,BLOCKS"
)


def is_operation(name: str) -> bool:
    return name.partition(":")[0] == OPERATION.name


def operation_named(name: str) -> Operation:
    """Return the scenario, with fields changed as in `operation:per_audit=10,days=365`."""
    _, _, changes = name.partition(":")
    try:
        mapping = tomllib.loads(changes.replace(",", "\n"))
    except tomllib.TOMLDecodeError:
        raise InputError(
            f"scenario operation: write its changes as in days=365, not {changes!r}"
        ) from None
    return with_changes(OPERATION, mapping)


def with_changes(scenario: Operation, changes: Mapping[str, Any]) -> Operation:
    types = {field.name: type(getattr(scenario, field.name)) for field in fields(Operation)}
    for name, value in changes.items():
        if name not in types or name == "name":
            raise InputError(f"scenario field {name}: there is no such field")
        wanted = types[name]
        numeric = isinstance(value, int | float) and not isinstance(value, bool)
        if wanted is tuple or not numeric or (wanted is int and not isinstance(value, int)):
            kind = "whole number" if wanted is int else "number"
            reason = "can't be changed here" if wanted is tuple else f"must be a {kind}"
            raise InputError(f"scenario field {name}: {reason}")
    return replace(scenario, **{name: types[name](value) for name, value in changes.items()})


def operation_policy(name: str, scenario: Operation = OPERATION) -> OperationPolicy:
    """Return a policy for one run: some learn from the nodes that they decide for."""
    kind, _, options = name.partition(":")
    try:
        numbers = [float(part) for part in options.split(",")] if options else []
    except ValueError:
        numbers = []
    match kind, numbers:
        case "constant", [interval, samples]:
            return _constant(name, interval, samples)
        case "two-speed", [calm, calm_samples, alarmed, alarmed_samples]:
            return TwoSpeed(
                _constant(name, calm, calm_samples), _constant(name, alarmed, alarmed_samples)
            )
        case "bayes", [price] if price > 0:
            return BayesIndex(scenario, price)
        case "clairvoyant", [price, samples] if price > 0:
            return Clairvoyant(price, _constant(name, 1.0, samples).samples)
    raise InputError(f"there is no policy {name!r} in operation: the known ones are {FORMS}")


def _constant(name: str, interval: float, samples: float) -> Constant:
    if not (0 < interval <= 3650 and 1 <= samples <= 1e9 and samples == int(samples)):
        raise InputError(
            f"policy {name}: an interval is a number of days, a sample a whole number of blocks"
        )
    return Constant(interval, int(samples))
