"""Pending audits of both kinds come back from what was saved, and are told apart."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.checkers.interface import DamagedUnit, Defect, Finding, Report
from holdfast.control.audits.pending import PendingAudit, decode_pending
from holdfast.control.audits.pending_check import PendingCheck, Phase
from holdfast.pdp import Challenge

numbers = st.integers(0, 2**53)
texts = st.text()
units = st.builds(DamagedUnit, texts, st.sampled_from(Defect), texts, texts)
reports = st.builds(
    Report,
    finding=st.sampled_from(Finding),
    reason=texts,
    units=numbers,
    checked=numbers,
    damaged=st.lists(units, max_size=2).map(tuple),
    verified=st.lists(texts, max_size=3).map(tuple),
    read_bytes=numbers,
    requests=numbers,
    began=numbers,
    ended=numbers,
    tool=texts,
    words=texts,
)
checks = st.builds(
    PendingCheck,
    due=numbers,
    seed=st.binary(min_size=32, max_size=32),
    since=numbers,
    phase=st.sampled_from(Phase),
    troubled=numbers,
    tries=numbers,
    reason=texts,
    units=numbers,
    unit=texts,
    tool=texts,
    drawn=numbers,
    sample=st.binary(max_size=32),
    overrides=numbers,
    began=numbers,
    deadline=numbers,
    job=st.binary(),
    old_job=st.binary(),
    first=st.none() | reports,
)


@given(checks)
def test_a_pending_check_comes_back_as_it_was(pending: PendingCheck) -> None:
    assert decode_pending(pending.encode()) == pending


def test_a_pending_proof_is_told_from_a_check() -> None:
    challenge = Challenge(bytes(32), bytes(32), 10, 5, 0, 10)
    pending = PendingAudit(1, challenge, bytes(33), bytes(20), 7)
    assert decode_pending(pending.encode()) == pending
    assert pending.id == challenge.id
