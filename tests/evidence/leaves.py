"""Leaves of every kind that Hypothesis can draw, from the types they are declared with."""

from dataclasses import replace
from enum import StrEnum
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from holdfast.evidence import leaf as kinds
from holdfast.evidence.codecs import LONGEST_TEXT, MOST
from holdfast.evidence.leaf import (
    Change,
    CheckedHolding,
    CheckResponse,
    Choice,
    DamagedUnit,
    Decision,
    Defect,
    Freshness,
    Leaf,
    Outcome,
    Override,
    PolicyChange,
    Step,
    StorageCheck,
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


_texts = st.text(max_size=LONGEST_TEXT).filter(str.isprintable)
_names = st.text(min_size=1, max_size=LONGEST_TEXT).filter(str.isprintable)
_places = st.text("abc/.:", min_size=1, max_size=40).map("s3".__add__)
_holdings = st.builds(CheckedHolding, st.integers(0, MOST), _names, _names, _places)
_units = st.builds(DamagedUnit, _names, st.sampled_from(Defect), _texts)
_responses = st.builds(
    CheckResponse,
    st.integers(0, MOST),
    _holdings,
    st.integers(0, MOST),
    st.sampled_from(Step),
    st.lists(_names, max_size=3).map(tuple),
    _texts,
)


@st.composite
def _checks(draw: st.DrawFn) -> StorageCheck:
    fields = {name: draw(field) for name, field in _fields(StorageCheck).items()}
    passed = draw(st.booleans())
    drawn, checked, more = (draw(st.integers(1, 2**40)) for _ in range(3))
    damaged = () if passed else tuple(draw(st.lists(_units, max_size=3)))
    other = [Outcome.OFFLINE, Outcome.UNKNOWN, *([Outcome.FAILED] if damaged else [])]
    began, length = draw(st.integers(0, 2**42)), draw(st.integers(0, 2**42))
    fields |= {
        "number": draw(st.integers(1, MOST)),
        "units": max(drawn, checked) + more,
        "drawn": drawn,
        "checked": checked,
        "damaged": damaged,
        "damaged_units": len(damaged) + (0 if passed else more),
        "began_at": began,
        "ended_at": began + length,
        "outcome": Outcome.PASSED if passed else draw(st.sampled_from(other)),
    }
    fields |= {name: draw(_names) for name in ("unit", "tool", "reason")}
    return StorageCheck(**fields)


_KNOWN: dict[Any, Drawn] = {
    int: st.integers(0, MOST),
    float: st.floats(0, 1).map(abs),
    str: _texts,
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
    CheckedHolding: _holdings,
    DamagedUnit: _units,
    StorageCheck: _checks(),
    CheckResponse: _responses,
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
    if get_origin(kind) is Annotated:  # a text of another length
        return strategy_for(parts[0])
    if issubclass(kind, StrEnum):
        return st.sampled_from(kind)
    return st.builds(kind, **_fields(kind))


leaves: st.SearchStrategy[Leaf] = st.sampled_from(list(kinds.KINDS.values())).flatmap(strategy_for)
