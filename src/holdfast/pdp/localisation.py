"""Finds damaged blocks: a failing span is halved until single blocks remain.

A challenge over all blocks of a span fails if any of them is damaged, but for a chance of 2^-128,
so finding c damaged blocks of n takes at most 2 c log2(n) + 1 proofs.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from holdfast.pdp.challenge import Challenge, draw_challenge
from holdfast.pdp.inventory import Inventory
from holdfast.pdp.keys import SecretKey
from holdfast.pdp.proof import Proof
from holdfast.pdp.spans import Span
from holdfast.pdp.verification import verify_with_key


@dataclass(frozen=True)
class Damage:
    """The damaged blocks, and spans whose answers contradict one another.

    `inconsistent` spans failed as a whole though both halves passed, or though no block in them is
    damaged: the node changed its answers or its data meanwhile.
    """

    blocks: tuple[int, ...]
    inconsistent: tuple[Span, ...]
    proofs: int


def locate(
    key: SecretKey,
    inventory: Inventory,
    respond: Callable[[Challenge], Proof | None],
    *,
    span: Span | None = None,
    grain: int = 1,
    inspect: Callable[[Span], Iterable[int]] = lambda span: span[:1],
    on_progress: Callable[[int, int], None] = lambda _cleared, _proofs: None,
) -> Damage:
    """Find the damaged blocks in the span; `on_progress` gets blocks settled and proofs asked for.

    A span without an answer has failed. One of up to `grain` blocks is halved no further:
    `inspect` says which of its blocks are damaged.
    """
    whole = span or (0, inventory.blocks)
    damaged: list[int] = []
    inconsistent: list[Span] = []
    settled = proofs = 0

    def passes(part: Span) -> bool:
        nonlocal proofs
        proofs += 1
        challenge = draw_challenge(inventory, part[1] - part[0], span=part)
        proof = respond(challenge)
        return proof is not None and verify_with_key(key, inventory, challenge, proof)

    if passes(whole):
        return Damage((), (), proofs)
    failing = [whole]
    while failing:
        start, stop = failing.pop()
        if stop - start <= grain:
            in_span = list(inspect((start, stop)))
            damaged += in_span
            if not in_span:
                inconsistent.append((start, stop))
            settled += stop - start
        else:
            middle = (start + stop) // 2
            halves = [(start, middle), (middle, stop)]
            suspects = [half for half in halves if not passes(half)]
            settled += stop - start - sum(b - a for a, b in suspects)
            if not suspects:
                inconsistent.append((start, stop))
            failing += suspects
        on_progress(settled, proofs)
    return Damage(tuple(sorted(damaged)), tuple(sorted(inconsistent)), proofs)
