"""Plausible slips in the contract, each one replacement in its source, with the scene it breaks."""

from dataclasses import dataclass

from tests.ledger import raw, scenes
from tests.ledger.scenes import Scene


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    killer: Scene
    sectors: int = 1


MUTANTS = [
    Mutant(
        "values of q are taken",
        "check.vy",
        "sigma < Q and mu < Q",
        "mu < Q",
        scenes.values_of_q_or_more_are_malformed_even_where_congruent,
    ),
    Mutant(
        "values of mu are not compared with q",
        "check.vy",
        "sigma < Q and mu < Q",
        "sigma < Q",
        scenes.values_of_q_or_more_are_malformed_even_where_congruent,
    ),
    Mutant(
        "the target may be zero",
        "check.vy",
        "== target and target != empty(address)",
        "== target",
        scenes.a_batch_without_targets_or_holdings_settles_nothing,
    ),
    Mutant(
        "zeros are not special",
        "check.vy",
        "if mu == 0:",
        "if mu == Q:",
        scenes.blocks_of_zeros_pass_and_nothing_else_under_their_target,
    ),
    Mutant(
        "zeros pass with any sign",
        "check.vy",
        "Q - sigma, GX",
        "sigma, GX",
        scenes.blocks_of_zeros_pass_and_nothing_else_under_their_target,
    ),
    Mutant(
        "keys are not checked",
        "check.vy",
        'x, x) != empty(address), "malformed"',
        'x, x) != msg.sender, "malformed"',
        scenes.keys_off_the_curve_are_malformed,
    ),
    Mutant(
        "a late proof passes",
        "audit.vy",
        'assert block.timestamp <= self._deadline(state), "late"',
        "pass",
        scenes.deadlines_are_kept_to_the_second,
    ),
    Mutant(
        "a late batch passes",
        "audit.vy",
        "block.timestamp <= convert(batch.deadline, uint256)",
        "0 < convert(batch.deadline, uint256)",
        scenes.a_batch_is_opened_at_once_and_each_challenge_settled_once,
    ),
    Mutant(
        "a challenge expires before its time",
        "audit.vy",
        "block.timestamp > self._deadline(self._open(",
        "0 < self._deadline(self._open(",
        scenes.deadlines_are_kept_to_the_second,
    ),
    Mutant(
        "a proof is taken twice",
        "audit.vy",
        "    self.challenges[holding][challenge] = 0\n    self._judge(",
        "    self._judge(",
        scenes.an_honest_proof_passes_whoever_brings_it_and_only_once,
    ),
    Mutant(
        "an expired challenge stays open",
        "audit.vy",
        "    self.challenges[holding][challenge] = 0\n    log TimedOut",
        "    log TimedOut",
        scenes.deadlines_are_kept_to_the_second,
    ),
    Mutant(
        "anyone may fail a node",
        "audit.vy",
        'assert signer == self.nodes[holding], "wrong"',
        'assert signer != empty(address), "wrong"',
        scenes.a_wrong_proof_fails_its_node_only_with_its_signature,
    ),
    Mutant(
        "the signature does not name the challenge",
        "audit.vy",
        "abi_encode(ANSWER, holding, challenge, digest)",
        "abi_encode(ANSWER, holding, holding, digest)",
        scenes.a_wrong_proof_fails_its_node_only_with_its_signature,
    ),
    Mutant(
        "the signature does not name the chain",
        "audit.vy",
        "chain.id, self)",
        "block.timestamp, self)",
        scenes.a_wrong_proof_fails_its_node_only_with_its_signature,
    ),
    Mutant(
        "a settled challenge of a batch is open",
        "audit.vy",
        "done |= bit\n        word: bytes32 = part.words[answer.offset]",
        "word: bytes32 = part.words[answer.offset]",
        scenes.a_batch_is_opened_at_once_and_each_challenge_settled_once,
    ),
    Mutant(
        "a batch is not looked up",
        "audit.vy",
        'assert self.batches[root], "unknown"',
        "pass",
        scenes.a_batch_is_opened_at_once_and_each_challenge_settled_once,
    ),
    Mutant(
        "an index has second names",
        "audit.vy",
        'assert place == 0, "malformed"',
        "pass",
        scenes.verdicts_posted_by_their_root_are_overturned_one_by_one,
    ),
    Mutant(
        "a stranger's root counts",
        "audit.vy",
        "convert(convert(verdict.holding >> 32, uint160), address)",
        "msg.sender",
        scenes.verdicts_posted_by_their_root_are_overturned_one_by_one,
    ),
    Mutant(
        "a verdict may be contested at any time",
        "audit.vy",
        'assert block.timestamp <= convert(until, uint256), "late"\n    self.challenges',
        "self.challenges",
        scenes.a_true_verdict_stands_and_so_does_one_after_its_window,
    ),
    Mutant(
        "any failing proof overturns a good verdict",
        "audit.vy",
        'assert not verdict.passed or verdict.digest == check.digest(proof), "unknown"',
        "pass",
        scenes.a_false_verdict_is_overturned_by_the_check,
    ),
    Mutant(
        "a true verdict is overturned",
        "audit.vy",
        'assert passed != verdict.passed, "upheld"',
        "pass",
        scenes.a_false_verdict_is_overturned_by_the_check,
    ),
    Mutant(
        "a verdict falls twice",
        "audit.vy",
        "    self.contested[root][leaf] = True\n",
        "",
        scenes.verdicts_posted_by_their_root_are_overturned_one_by_one,
    ),
    Mutant(
        "a holding nobody registered passes",
        "audit.vy",
        '    assert key != 0, "unknown"\n    if check',
        "    if check",
        scenes.a_batch_without_targets_or_holdings_settles_nothing,
    ),
    Mutant(
        "hints are not checked",
        "check.vy",
        'assert convert(named, uint256) == hashed, "malformed"',
        "pass",
        raw.hostile_hints_are_malformed_even_with_the_nodes_signature,
        sectors=4,
    ),
    Mutant(
        "the sum is not the sum",
        "check.vy",
        "z = uint256_mulmod(z, h, P)",
        "z = uint256_mulmod(h, h, P)",
        scenes.an_honest_proof_passes_whoever_brings_it_and_only_once,
        sectors=4,
    ),
    Mutant(
        "the rest is not carried",
        "check.vy",
        "rest = uint256_addmod(rest, unsafe_sub(Q, power), Q)",
        "pass",
        scenes.an_honest_proof_passes_whoever_brings_it_and_only_once,
        sectors=4,
    ),
    Mutant(
        "a name does not bind the target",
        "audit.vy",
        "abi_encode(asked, target, deadline)",
        "abi_encode(asked, holding, deadline)",
        scenes.an_honest_proof_passes_whoever_brings_it_and_only_once,
    ),
    Mutant(
        "a name does not bind the deadline",
        "audit.vy",
        "abi_encode(asked, target, deadline)",
        "abi_encode(asked, target, holding)",
        scenes.an_honest_proof_passes_whoever_brings_it_and_only_once,
    ),
    Mutant(
        "a part may stand beside its place",
        "audit.vy",
        'assert part.start % (1 << levels) == 0, "malformed"',
        "pass",
        raw.a_part_of_a_batch_is_only_what_and_where_it_was_opened,
    ),
    Mutant(
        "what was settled is not written down",
        "audit.vy",
        "self.settled[root][part.start >> 8] = done\n\n\n@external\ndef expire(",
        "self.settled[root][part.start >> 8] |= 0\n\n\n@external\ndef expire(",
        scenes.a_batch_is_opened_at_once_and_each_challenge_settled_once,
    ),
    Mutant(
        "a batch expires before its time",
        "audit.vy",
        "block.timestamp > convert(batch.deadline, uint256)",
        "0 < convert(batch.deadline, uint256)",
        scenes.a_batch_is_opened_at_once_and_each_challenge_settled_once,
    ),
    Mutant(
        "a challenge of a batch expires again and again",
        "audit.vy",
        "log TimedOut(holding=holding, challenge=keccak256(concat(head, word)))\n"
        "    self.settled[root][part.start >> 8] = done",
        "log TimedOut(holding=holding, challenge=keccak256(concat(head, word)))",
        scenes.a_batch_is_opened_at_once_and_each_challenge_settled_once,
    ),
    Mutant(
        "an open challenge is opened over",
        "audit.vy",
        'assert self.challenges[holding][challenge] == 0, "open"',
        "pass",
        scenes.a_challenge_is_opened_once_by_its_owner_in_time_and_with_a_target,
    ),
    Mutant(
        "more blocks are sampled than there are",
        "audit.vy",
        "0 < samples and samples <= blocks and",
        "0 < samples and",
        raw.a_challenge_samples_some_of_its_blocks,
    ),
    Mutant(
        "the deadline is a second early",
        "audit.vy",
        "block.timestamp <= self._deadline(state)",
        "block.timestamp < self._deadline(state)",
        scenes.deadlines_are_kept_to_the_second,
    ),
    Mutant(
        "the window of a root never closes",
        "audit.vy",
        'assert block.timestamp <= convert(until, uint256), "late"\n    self.contested',
        "self.contested",
        scenes.verdicts_posted_by_their_root_are_overturned_one_by_one,
    ),
    Mutant(
        "a posted verdict leaves the challenge open",
        "audit.vy",
        "self.challenges[holding][challenge] = self._posted(verdict, until)",
        "pass",
        scenes.a_false_verdict_is_overturned_by_the_check,
    ),
    Mutant(
        "the verdict of one is taken for another's",
        "audit.vy",
        "assert state == self._posted(verdict, until)",
        "assert state & LOW_32 == 1",
        scenes.a_false_verdict_is_overturned_by_the_check,
    ),
    Mutant(
        "the blinding is not bound to the proof",
        "check.vy",
        "power, e, Q)",
        "power, 2, Q)",
        scenes.an_honest_proof_passes_whoever_brings_it_and_only_once,
        sectors=4,
    ),
]
