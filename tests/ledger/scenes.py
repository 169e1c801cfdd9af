"""What must happen on every ledger, told in scenes; each registers its own holdings.

The contract's mutants are judged by them too, so each rule has a scene that breaks without it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count

import pytest
from coincurve import PrivateKey
from tests.support.ledger_env import NODE_ADDRESS, Audit, Kept, World, batch_of, names, wrong

from holdfast.errors import InputError
from holdfast.ledger import check, signing
from holdfast.ledger.interface import (
    Anchored,
    Answer,
    Batch,
    Domain,
    Failed,
    LedgerRefusedError,
    Opened,
    OpenedMany,
    Passed,
    Reason,
    TimedOut,
    fresh_seed,
)
from holdfast.ledger.keccak import address_of
from holdfast.pdp import Proof, PublicKey, curve
from holdfast.pdp.field import Q

Scene = Callable[[World], None]
_seeds = count(1)


@contextmanager
def refused(reason: Reason) -> Iterator[None]:
    with pytest.raises(LedgerRefusedError) as error:
        yield
    assert error.value.reason == reason


def keep(world: World) -> Kept:
    return Kept(world, world.owner.sectors, next(_seeds))


def crafted(kept: Kept, sigma: int, mu: tuple[int, ...], seed: int) -> tuple[Audit, Proof]:
    """Return an audit whose target is made for a chosen proof, as an owner can."""
    public = kept.store.key.public
    terms = [curve.times(A, m) for A, m in zip(public.points, mu, strict=True)]
    total = curve.total([*terms, curve.times_base(Q - sigma)])
    assert total is not None
    audit = kept.opened(replace(kept.audit(seed), target=address_of(total)))
    return audit, Proof(audit.id, sigma, mu)


def an_honest_proof_passes_whoever_brings_it_and_only_once(world: World) -> None:
    kept = keep(world)
    audit = kept.open()
    receipt = world.stranger.submit(kept.id, audit.id, Answer(audit.proof))
    assert receipt.events == (Passed(kept.id, audit.id),)
    for ledger in (world.owner, world.stranger):
        with refused(Reason.UNKNOWN):
            ledger.submit(kept.id, audit.id, Answer(audit.proof))


def a_wrong_proof_fails_its_node_only_with_its_signature(world: World) -> None:
    kept, other = keep(world), keep(world)
    audit, elsewhere = kept.open(1), kept.audit(2)
    forged = wrong(audit.proof)
    abroad = Domain(world.owner.domain.chain + 1, world.owner.domain.contract)
    beside = Domain(world.owner.domain.chain, bytes(20))
    for answer in (
        Answer(forged),
        Answer(forged, bytes(65)),
        kept.signed(audit.id, forged, PrivateKey(b"\x08" * 32)),
        kept.signed(elsewhere.id, forged),
        other.signed(audit.id, forged),
        Answer(forged, kept.signed(audit.id, audit.proof).signature),
        Answer(forged, signing.sign(kept.node, abroad, kept.id, audit.id, forged)),
        Answer(forged, signing.sign(kept.node, beside, kept.id, audit.id, forged)),
    ):
        with refused(Reason.WRONG):
            world.owner.submit(kept.id, audit.id, answer)
    receipt = world.stranger.submit(kept.id, audit.id, kept.signed(audit.id, forged))
    assert receipt.events == (Failed(kept.id, audit.id, check.digest(forged)),)
    with refused(Reason.UNKNOWN):
        world.owner.submit(kept.id, audit.id, Answer(audit.proof))


def what_a_node_signed_is_good_for_that_challenge_alone(world: World) -> None:
    kept = keep(world)
    admitted, good = kept.open(1), kept.open(2)
    fault = kept.signed(admitted.id, wrong(admitted.proof))
    praise = kept.signed(good.id, good.proof)
    assert names(world.owner.submit(kept.id, admitted.id, fault)) == ["Failed"]
    assert names(world.owner.submit(kept.id, good.id, praise)) == ["Passed"]
    # The owner opens both again: as they were, for longer, with a target that no proof of theirs
    # meets. But their serials are used, whatever the clock.
    for audit in (admitted, good, replace(good, target=admitted.target)):
        for seconds in (0, 50):
            with refused(Reason.USED):
                terms = (audit.target, audit.deadline + seconds)
                world.owner.open(kept.number, audit.challenge, *terms)
    with refused(Reason.UNKNOWN):
        world.owner.submit(kept.id, admitted.id, fault)
    fresh = kept.open(3)
    for answer in (fault, praise):
        with refused(Reason.WRONG):
            world.owner.submit(kept.id, fresh.id, answer)
    assert names(world.stranger.submit(kept.id, fresh.id, Answer(fresh.proof))) == ["Passed"]


def serials_only_grow_for_every_holding_by_itself(world: World) -> None:
    kept, other = keep(world), keep(world)
    assert world.owner.newest_serial(kept.number) == 0
    kept.open(5)
    five = int.from_bytes(bytes([5]) * 8, "big")
    assert world.owner.newest_serial(kept.number) == five
    for seed in (0, 4):
        late = kept.audit(seed)
        with refused(Reason.USED):
            world.owner.open(kept.number, late.challenge, late.target, world.now() + 100)
    other.open(4)
    # The same serial with other bytes behind it is no other seed.
    beside = replace(kept.audit(5).challenge, seed=bytes([5]) * 31 + b"6")
    with refused(Reason.USED):
        world.owner.open(kept.number, beside, kept.audit(5).target, world.now() + 100)
    assert world.owner.newest_serial(kept.number) == five
    drawn = fresh_seed(world.owner, kept.number, 0, bytes([7]) * 32)
    assert drawn == (five + 1).to_bytes(8, "big") + bytes([7]) * 24
    assert fresh_seed(world.owner, kept.number, five + 9, drawn)[:8] == (five + 9).to_bytes(
        8, "big"
    )


def a_name_binds_its_holding(world: World) -> None:
    kept, other = keep(world), keep(world)
    audit, deadline = kept.open(1), world.now() + 100
    (event,) = world.owner.open(other.number, audit.challenge, audit.target, deadline).events
    assert isinstance(event, Opened)
    own = replace(audit, holding=other.id, deadline=deadline)
    assert event.challenge == own.id
    assert own.id != replace(own, holding=kept.id).id


def a_signature_does_not_fail_a_proof_that_passes(world: World) -> None:
    kept = keep(world)
    audit = kept.open()
    receipt = world.owner.submit(kept.id, audit.id, kept.signed(audit.id, audit.proof))
    assert names(receipt) == ["Passed"]


def forgers_who_hold_the_target_are_refused(world: World) -> None:
    kept = keep(world)
    audit = kept.open()
    sigma, mu = audit.proof.sigma, audit.proof.mu
    zeros = (0,) * len(mu)
    hidden = int.from_bytes(audit.target, "big")
    for forged in (
        (0, zeros),
        (sigma, zeros),
        (0, mu),
        (Q - sigma, tuple(-m % Q for m in mu)),
        (sigma, tuple(-m % Q for m in mu)),
        (Q - sigma, mu),
        (2 * sigma % Q, tuple(2 * m % Q for m in mu)),
        (mu[0], (sigma, *mu[1:])),
        (hidden, mu),
        (sigma, (hidden, *mu[1:])),
    ):
        with refused(Reason.WRONG):
            world.stranger.submit(kept.id, audit.id, Answer(Proof(audit.id, *forged)))
    assert names(world.owner.submit(kept.id, audit.id, Answer(audit.proof))) == ["Passed"]


def values_of_q_or_more_are_malformed_even_where_congruent(world: World) -> None:
    kept = keep(world)
    audit, proof = crafted(kept, 5, tuple(range(7, 7 + kept.sectors)), 1)
    last = (*proof.mu[:-1], proof.mu[-1] + Q)
    for second in (replace(proof, sigma=5 + Q), replace(proof, mu=last)):
        with refused(Reason.MALFORMED):
            world.owner.submit(kept.id, audit.id, kept.signed(audit.id, second))
    assert names(world.owner.submit(kept.id, audit.id, Answer(proof))) == ["Passed"]


def blocks_of_zeros_pass_and_nothing_else_under_their_target(world: World) -> None:
    kept = keep(world)
    zeros = (0,) * kept.sectors
    audit, proof = crafted(kept, 9, zeros, 1)
    for forged in (10, Q - 9, 0):
        with refused(Reason.WRONG):
            world.owner.submit(kept.id, audit.id, Answer(Proof(audit.id, forged, zeros)))
    assert names(world.owner.submit(kept.id, audit.id, Answer(proof))) == ["Passed"]


def sectors_of_zeros_take_no_part(world: World) -> None:
    kept = keep(world)
    for place in sorted({0, kept.sectors // 2, kept.sectors - 1}):
        mu = tuple(3 if j == place else 0 for j in range(kept.sectors))
        audit, proof = crafted(kept, 11, mu, place + 1)
        with refused(Reason.WRONG):
            world.owner.submit(kept.id, audit.id, Answer(replace(proof, sigma=12)))
        assert names(world.owner.submit(kept.id, audit.id, Answer(proof))) == ["Passed"]


def no_proof_is_good_for_another_challenge_or_holding(world: World) -> None:
    kept, other = keep(world), keep(world)
    first, second = kept.open(1), kept.open(2)
    theirs = other.open(1)
    assert names(world.owner.submit(kept.id, first.id, Answer(first.proof))) == ["Passed"]
    for replayed in (first.proof, theirs.proof):
        with refused(Reason.WRONG):
            world.owner.submit(kept.id, second.id, Answer(replayed))
    with refused(Reason.UNKNOWN):
        world.owner.submit(other.id, second.id, Answer(second.proof))
    assert names(world.owner.submit(kept.id, second.id, Answer(second.proof))) == ["Passed"]


def deadlines_are_kept_to_the_second(world: World) -> None:
    kept = keep(world)
    audits = [kept.open(seed, seconds=100) for seed in (1, 2)]
    with refused(Reason.EARLY):
        world.owner.expire(kept.id, audits[0].id)
    world.advance(200)
    for audit in audits:
        with refused(Reason.LATE):
            world.owner.submit(kept.id, audit.id, kept.signed(audit.id, audit.proof))
    receipt = world.stranger.expire(kept.id, audits[0].id)
    assert receipt.events == (TimedOut(kept.id, audits[0].id),)
    with refused(Reason.UNKNOWN):
        world.owner.expire(kept.id, audits[0].id)
    with refused(Reason.UNKNOWN):
        world.owner.submit(kept.id, audits[0].id, Answer(audits[0].proof))
    assert names(world.owner.expire(kept.id, audits[1].id)) == ["TimedOut"]
    if world.exact:
        deadline = world.now() + 100
        last = kept.open(3, seconds=100)
        world.advance(deadline - world.now())
        with refused(Reason.EARLY):
            world.owner.expire(kept.id, last.id)
        assert names(world.owner.submit(kept.id, last.id, Answer(last.proof))) == ["Passed"]


def a_challenge_is_opened_once_by_its_owner_in_time_and_with_a_target(world: World) -> None:
    kept = keep(world)
    audit = kept.open(1)
    fresh, soon = kept.audit(2), world.now() + 100
    with refused(Reason.OPEN):
        world.owner.open(kept.number, audit.challenge, audit.target, audit.deadline)
    with refused(Reason.UNKNOWN):
        world.stranger.open(kept.number, fresh.challenge, fresh.target, soon)
    with refused(Reason.UNKNOWN):
        world.owner.open(kept.number + 1, fresh.challenge, fresh.target, soon)
    with refused(Reason.MALFORMED):
        world.owner.open(kept.number, fresh.challenge, bytes(20), soon)
    with refused(Reason.LATE):
        world.owner.open(kept.number, fresh.challenge, fresh.target, world.now() - 10)


def keys_off_the_curve_are_malformed(world: World) -> None:
    good = keep(world).store.key.public
    assert world.owner.key(keep(world).id).sectors == good.sectors
    with refused(Reason.MALFORMED):
        world.owner.register(good, bytes(20))
    for x in (0, 5, Q, 2**256 - 1):  # no point has x = 5
        hostile = PublicKey((*good.abscissas[:-1], x.to_bytes(32, "big")))
        with refused(Reason.MALFORMED):
            world.owner.register(hostile, NODE_ADDRESS)


def a_batch_is_opened_at_once_and_each_challenge_settled_once(world: World) -> None:
    kept = {holding.id: holding for holding in (keep(world), keep(world), keep(world))}
    batch, audits = batch_of(world, [*kept.values(), *kept.values()][:5])
    answers = {index: Answer(audit.proof) for index, audit in enumerate(audits)}
    with refused(Reason.UNKNOWN):
        world.owner.settle(batch, {0: answers[0]})
    (opened,) = world.owner.open_many(batch).events
    shared = (batch.seed, batch.deadline, batch.words)
    assert opened == OpenedMany(batch.root, batch.owner, *shared)
    with refused(Reason.OPEN):
        world.owner.open_many(batch)
    with refused(Reason.UNKNOWN):
        world.owner.settle(replace(batch, deadline=batch.deadline + 1), {0: answers[0]})
    with refused(Reason.WRONG):
        world.owner.settle(batch, {0: answers[0], 1: answers[2]})
    with refused(Reason.EARLY):
        world.owner.expire_many(batch, [0])
    receipt = world.stranger.settle(batch, {1: answers[1]})
    assert receipt.events == (Passed(audits[1].holding, batch.challenge_id(1)),)
    forged = kept[audits[2].holding].signed(batch.challenge_id(2), wrong(audits[2].proof))
    assert names(world.stranger.settle(batch, {0: answers[0], 2: forged})) == ["Passed", "Failed"]
    for index in (0, 1, 2):
        with refused(Reason.UNKNOWN):
            world.stranger.settle(batch, {index: answers[index]})
    assert names(world.stranger.settle(batch, {4: answers[4]})) == ["Passed"]
    world.advance(200)
    with refused(Reason.LATE):
        world.stranger.settle(batch, {3: answers[3]})
    receipt = world.stranger.expire_many(batch, [3])
    assert receipt.events == (TimedOut(audits[3].holding, batch.challenge_id(3)),)
    with refused(Reason.UNKNOWN):
        world.owner.expire_many(batch, [3])
    with refused(Reason.LATE):
        world.owner.open_many(replace(batch, seed=b"c" * 32))


def what_is_settled_already_stands_in_nobodys_way(world: World) -> None:
    kept = {holding.id: holding for holding in (keep(world), keep(world), keep(world))}
    batch, audits = batch_of(world, [*kept.values(), *kept.values()], b"g" * 32)
    answers = {index: Answer(audit.proof) for index, audit in enumerate(audits)}
    world.owner.open_many(batch)
    assert names(world.stranger.settle(batch, {1: answers[1]})) == ["Passed"]
    # Signatures stay with their answers, also behind one that is left out.
    forged = kept[audits[2].holding].signed(batch.challenge_id(2), wrong(audits[2].proof))
    receipt = world.owner.settle(batch, {1: forged, 0: answers[0], 2: forged})
    assert receipt.events == (
        Passed(audits[0].holding, batch.challenge_id(0)),
        Failed(audits[2].holding, batch.challenge_id(2), check.digest(forged.proof)),
    )
    with refused(Reason.UNKNOWN):
        world.owner.settle(batch, {index: answers[index] for index in (0, 1, 2)})
    world.advance(200)
    assert names(world.stranger.expire_many(batch, [3])) == ["TimedOut"]
    receipt = world.owner.expire_many(batch, [0, 3, 4, 5])
    assert receipt.events == tuple(
        TimedOut(audits[index].holding, batch.challenge_id(index)) for index in (4, 5)
    )
    with refused(Reason.UNKNOWN):
        world.owner.expire_many(batch, [0, 3, 4])


def a_batch_is_its_owners_and_its_names_are_used_once(world: World) -> None:
    kept = keep(world)
    batch, audits = batch_of(world, [kept, kept], b"h" * 32)
    for words in (batch.words[::-1], batch.words[:1] * 2, (bytes(32), *batch.words)):
        with refused(Reason.MALFORMED):
            world.owner.open_many(replace(batch, words=words))
    theirs = replace(batch, owner=world.stranger.sender)
    world.stranger.open_many(theirs)  # of the same seed, words and deadline
    with refused(Reason.UNKNOWN):
        world.stranger.settle(batch, {0: Answer(audits[0].proof)})
    world.owner.open_many(batch)
    with refused(Reason.UNKNOWN):
        world.stranger.settle(theirs, {0: Answer(audits[0].proof)})
    for words in (batch.words[:1], (*batch.words, b"\xff" * 32)):
        with refused(Reason.USED):
            world.owner.open_many(replace(batch, words=words))
    assert names(world.owner.settle(batch, {0: Answer(audits[0].proof)})) == ["Passed"]
    # The same seed for longer is another batch, whose names are others.
    longer = replace(batch, deadline=batch.deadline + 1)
    assert not {batch.challenge_id(0), batch.challenge_id(1)} & {
        longer.challenge_id(0),
        longer.challenge_id(1),
    }
    world.owner.open_many(longer)
    signed = kept.signed(batch.challenge_id(1), wrong(audits[1].proof))
    with refused(Reason.WRONG):
        world.owner.settle(longer, {1: signed})


def a_batch_without_targets_or_holdings_settles_nothing(world: World) -> None:
    kept = keep(world)
    batch, (audit,) = batch_of(world, [kept], b"d" * 32)
    targetless = bytes(20) + batch.words[0][20:]
    unknown = batch.words[0][:20] + b"\xff" * 4 + batch.words[0][24:]
    alpha = kept.store.key.alphas[0]
    zeros = (0,) * (kept.sectors - 1)
    odd = replace(batch, words=(targetless, unknown))  # in this order: the first begins with zeros
    world.owner.open_many(odd)
    for sigma, mu in ((0, 0), (alpha, 1)):  # both sum to the point at infinity
        with pytest.raises((LedgerRefusedError, InputError)) as error:
            world.owner.settle(odd, {0: Answer(Proof(audit.id, sigma, (mu, *zeros)))})
        assert getattr(error.value, "reason", Reason.WRONG) == Reason.WRONG
    with refused(Reason.UNKNOWN):
        world.owner.settle(odd, {1: Answer(audit.proof)})
    keyless = curve.times_base(Q - 9)  # sigma = 9 and mu = 0 meet it under any key
    assert keyless is not None
    free = replace(batch, words=(address_of(keyless) + unknown[20:],), seed=b"e" * 32)
    world.owner.open_many(free)
    with refused(Reason.UNKNOWN):
        world.owner.settle(free, {0: Answer(Proof(audit.id, 9, (0, *zeros)))})
    theirs = Batch(world.stranger.sender, b"f" * 32, batch.deadline, batch.words)
    world.stranger.open_many(theirs)
    with refused(Reason.UNKNOWN):  # a stranger's batch is about the stranger's holdings
        world.stranger.settle(theirs, {0: Answer(audit.proof)})


def a_root_is_anchored_under_its_sender(world: World) -> None:
    receipt = world.stranger.anchor(b"r" * 32, 7)
    assert receipt.events == (Anchored(world.stranger.sender, b"r" * 32, 7),)
    assert receipt.events in [seen.events for seen in world.owner.receipts(receipt.block)]


SCENES: list[Scene] = [
    an_honest_proof_passes_whoever_brings_it_and_only_once,
    a_wrong_proof_fails_its_node_only_with_its_signature,
    what_a_node_signed_is_good_for_that_challenge_alone,
    serials_only_grow_for_every_holding_by_itself,
    a_name_binds_its_holding,
    a_signature_does_not_fail_a_proof_that_passes,
    forgers_who_hold_the_target_are_refused,
    values_of_q_or_more_are_malformed_even_where_congruent,
    blocks_of_zeros_pass_and_nothing_else_under_their_target,
    sectors_of_zeros_take_no_part,
    no_proof_is_good_for_another_challenge_or_holding,
    deadlines_are_kept_to_the_second,
    a_challenge_is_opened_once_by_its_owner_in_time_and_with_a_target,
    keys_off_the_curve_are_malformed,
    a_batch_is_opened_at_once_and_each_challenge_settled_once,
    what_is_settled_already_stands_in_nobodys_way,
    a_batch_is_its_owners_and_its_names_are_used_once,
    a_batch_without_targets_or_holdings_settles_nothing,
    a_root_is_anchored_under_its_sender,
]
