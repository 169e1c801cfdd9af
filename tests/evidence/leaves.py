"""Leaves of every kind that Hypothesis can draw, from the types they are declared with."""

from dataclasses import replace
from enum import StrEnum
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from holdfast.evidence import leaf as kinds
from holdfast.evidence.codecs import LONGEST_TEXT, MOST
from holdfast.evidence.leaf import (
    Change,
    Choice,
    Decision,
    Freshness,
    Leaf,
    Override,
    PolicyChange,
    Telemetry,
)
from holdfast.model.observation import Observation
from holdfast.pdp import Challenge

Drawn = st.SearchStrategy[Any]


def _exactly(length: int) -> Drawn:
    return st.binary(min_size=length, max_size=length)


def _fields(kind: Any) -> dict[str, Drawn]:
    hints = get_type_hints(kind, include_extras=True)
    return {name: strategy_for(hint) for name, hint in hints.items()}


@st.composite
def _challenges(draw: st.DrawFn) -> Challenge:
    start, samples, more, rest = (draw(st.integers(0, 2**40)) for _ in range(4))
    stop = start + samples + 1 + more
    seed, inventory = draw(_exactly(32)), draw(_exactly(32))
    return Challenge(seed, inventory, stop + rest, samples + 1, start, stop)


@st.composite
def _telemetry(draw: st.DrawFn) -> Telemetry:
    freshness = draw(st.sampled_from(Freshness))
    if freshness == Freshness.MISSING:
        return Telemetry(freshness, None, None)
    return Telemetry(freshness, draw(strategy_for(Observation)), draw(strategy_for(int)))


@st.composite
def _decisions(draw: st.DrawFn) -> Decision:
    fields = _fields(Decision)
    overrides = tuple(draw(st.lists(strategy_for(Override), max_size=2)))
    chosen = draw(fields["chosen"] if overrides else strategy_for(Choice))
    at, telemetry, shadow = (draw(fields[name]) for name in ("at", "telemetry", "shadow"))
    return Decision(at, telemetry, chosen, shadow, overrides)


@st.composite
def _policy_changes(draw: st.DrawFn) -> PolicyChange:
    fields = {name: draw(field) for name, field in _fields(PolicyChange).items()}
    if fields["change"] is not Change.PROMOTED:
        fields |= {"forced": False, "checks": (), "report": None}
    elif not fields["forced"]:
        fields["checks"] = tuple(replace(check, passed=True) for check in fields["checks"])
    else:
        fields["reason"] = f"because: {fields['reason']}"[:LONGEST_TEXT]
    return PolicyChange(**fields)


_KNOWN: dict[Any, Drawn] = {
    int: st.integers(0, MOST),
    float: st.floats(0, 1).map(abs),
    str: st.text(max_size=LONGEST_TEXT).filter(str.isprintable),
    bytes: _exactly(32),
    bool: st.booleans(),
    kinds.HoldingNumber: st.integers(0, 2**192 - 1),
    kinds.Address: _exactly(20),
    kinds.Signature: _exactly(65),
    kinds.Point: _exactly(33),
    Challenge: _challenges(),
    Telemetry: _telemetry(),
    Decision: _decisions(),
    PolicyChange: _policy_changes(),
}


def strategy_for(kind: Any) -> Drawn:
    """Return values of a type that a leaf may hold."""
    parts = get_args(kind)
    if kind in _KNOWN:
        return _KNOWN[kind]
    if parts and parts[-1] is NoneType:
        return st.none() | strategy_for(parts[0])
    if get_origin(kind) is tuple:
        return st.lists(strategy_for(parts[0]), max_size=3).map(tuple)
    if issubclass(kind, StrEnum):
        return st.sampled_from(kind)
    return st.builds(kind, **_fields(kind))


leaves: st.SearchStrategy[Leaf] = st.sampled_from(list(kinds.KINDS.values())).flatmap(strategy_for)
