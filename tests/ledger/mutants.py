"""Plausible slips in the contract, each one replacement in its source, with the scene it breaks."""

from dataclasses import dataclass

from tests.ledger import raw, scenes
from tests.ledger.scenes import Scene

from holdfast.ledger import artefact


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
        "a part may stand beside its place",
        "audit.vy",
        'assert part.start % (1 << levels) == 0, "malformed"',
        "pass",
        raw.a_part_of_a_batch_is_only_what_and_where_it_was_opened,
    ),
    Mutant(
        "a batch expires before its time",
        "audit.vy",
        "block.timestamp > convert(batch.deadline, uint256)",
        "0 < convert(batch.deadline, uint256)",
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
        "the blinding is not bound to the proof",
        "check.vy",
        "power, e, Q)",
        "power, 2, Q)",
        scenes.an_honest_proof_passes_whoever_brings_it_and_only_once,
        sectors=4,
    ),
    Mutant(
        "anyone may fail a node",
        "audit.vy",
        "convert(signer, uint256) == self.nodes[holding] & LOW_160",
        "signer != empty(address)",
        scenes.a_wrong_proof_fails_its_node_only_with_its_signature,
    ),
    Mutant(
        "a node is its whole slot",
        "audit.vy",
        "== self.nodes[holding] & LOW_160",
        "== self.nodes[holding]",
        scenes.a_wrong_proof_fails_its_node_only_with_its_signature,
    ),
    Mutant(
        "a batch is not looked up",
        "audit.vy",
        'assert self.roots[head] == root, "unknown"',
        "pass",
        scenes.a_batch_is_opened_at_once_and_each_challenge_settled_once,
    ),
    Mutant(
        "any words stand for a batch that was opened",
        "audit.vy",
        "assert self.roots[head] == root",
        "assert self.roots[head] != empty(bytes32)",
        raw.a_part_of_a_batch_is_only_what_and_where_it_was_opened,
    ),
    Mutant(
        "an index has second names",
        "audit.vy",
        'assert place == 0, "malformed"',
        "pass",
        raw.a_part_of_a_batch_is_only_what_and_where_it_was_opened,
    ),
    Mutant(
        "a leaf is as long as an inner node",
        "audit.vy",
        "LEAF: constant(uint256) = 4 ",
        "LEAF: constant(uint256) = 1 ",
        scenes.a_batch_is_opened_at_once_and_each_challenge_settled_once,
    ),
    Mutant(
        "a leaf does not bind its batch",
        "audit.vy",
        "nodes[unsafe_sub(count // LEAF, 1)] = keccak256(abi_encode(head, leaf))",
        "nodes[unsafe_sub(count // LEAF, 1)] = keccak256(abi_encode(leaf))",
        scenes.a_batch_is_opened_at_once_and_each_challenge_settled_once,
    ),
    Mutant(
        "the last leaf has words of the one before",
        "audit.vy",
        "            leaf = empty(bytes32[LEAF])\n",
        "",
        scenes.a_batch_is_opened_at_once_and_each_challenge_settled_once,
    ),
    Mutant(
        "a batch is nobody's",
        "audit.vy",
        "return keccak256(abi_encode(batch))",
        "return keccak256(abi_encode(batch.seed, batch.deadline))",
        scenes.a_batch_is_its_owners_and_its_names_are_used_once,
    ),
    Mutant(
        "a head does not bind the deadline",
        "audit.vy",
        "return keccak256(abi_encode(batch))",
        "return keccak256(abi_encode(batch.owner, batch.seed))",
        scenes.a_batch_is_its_owners_and_its_names_are_used_once,
    ),
    Mutant(
        "a batch is opened over another",
        "audit.vy",
        '    assert opened == empty(bytes32), "used"\n',
        "",
        scenes.a_batch_is_its_owners_and_its_names_are_used_once,
    ),
    Mutant(
        "an open batch is opened again",
        "audit.vy",
        "assert opened != root",
        "assert opened != head",
        scenes.a_batch_is_opened_at_once_and_each_challenge_settled_once,
    ),
    Mutant(
        "a word stands twice in a batch",
        "audit.vy",
        "assert convert(word, uint256) > last",
        "assert convert(word, uint256) >= last",
        scenes.a_batch_is_its_owners_and_its_names_are_used_once,
    ),
    Mutant(
        "words stand in any order",
        "audit.vy",
        "        last = convert(word, uint256)\n",
        "",
        scenes.a_batch_is_its_owners_and_its_names_are_used_once,
    ),
    Mutant(
        "a name does not bind the holding",
        "audit.vy",
        "abi_encode(holding, asked, target, deadline)",
        "abi_encode(empty(uint256), asked, target, deadline)",
        scenes.a_name_binds_its_holding,
    ),
    Mutant(
        "a name does not bind the target",
        "audit.vy",
        "abi_encode(holding, asked, target, deadline)",
        "abi_encode(holding, asked, holding, deadline)",
        scenes.an_honest_proof_passes_whoever_brings_it_and_only_once,
    ),
    Mutant(
        "a name does not bind the deadline",
        "audit.vy",
        "abi_encode(holding, asked, target, deadline)",
        "abi_encode(holding, asked, target, holding)",
        scenes.an_honest_proof_passes_whoever_brings_it_and_only_once,
    ),
    Mutant(
        "a name in a batch does not bind the holding",
        "audit.vy",
        "            keccak256(abi_encode(holding, head, word)),",
        "            keccak256(abi_encode(owner, head, word)),",
        scenes.a_batch_is_opened_at_once_and_each_challenge_settled_once,
    ),
    Mutant(
        "a name is used again",
        "audit.vy",
        'assert serial > node >> 160, "used"',
        "pass",
        scenes.what_a_node_signed_is_good_for_that_challenge_alone,
    ),
    Mutant(
        "the newest serial is used again",
        "audit.vy",
        "assert serial > node >> 160",
        "assert serial >= node >> 160",
        scenes.what_a_node_signed_is_good_for_that_challenge_alone,
    ),
    Mutant(
        "a serial is not remembered",
        "audit.vy",
        "    self.nodes[holding] = (serial << 160) | (node & LOW_160)\n",
        "",
        scenes.serials_only_grow_for_every_holding_by_itself,
    ),
    Mutant(
        "a serial takes the place of the node",
        "audit.vy",
        "(serial << 160) | (node & LOW_160)",
        "(serial << 160) | 1",
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
        "one that is settled refuses all",
        "audit.vy",
        "            continue\n        done |= bit\n"
        "        word: bytes32 = part.words[answer.offset]",
        '            raise "unknown"\n        done |= bit\n'
        "        word: bytes32 = part.words[answer.offset]",
        scenes.what_is_settled_already_stands_in_nobodys_way,
    ),
    Mutant(
        "one that has expired refuses all",
        "audit.vy",
        "            continue\n        done |= bit\n        word: bytes32 = part.words[offset]",
        '            raise "unknown"\n        done |= bit\n'
        "        word: bytes32 = part.words[offset]",
        scenes.what_is_settled_already_stands_in_nobodys_way,
    ),
    Mutant(
        "a signature moves to the next answer",
        "audit.vy",
        "        if signed:\n            signature = signatures[place]\n"
        "            place = unsafe_add(place, 1)\n"
        "        bit: uint256 = 1 << unsafe_add(part.start & 255, answer.offset)\n"
        "        if done & bit != 0:\n            continue\n",
        "        bit: uint256 = 1 << unsafe_add(part.start & 255, answer.offset)\n"
        "        if done & bit != 0:\n            continue\n"
        "        if signed:\n            signature = signatures[place]\n"
        "            place = unsafe_add(place, 1)\n",
        scenes.what_is_settled_already_stands_in_nobodys_way,
    ),
    Mutant(
        "what was settled is not written down",
        "audit.vy",
        "self.settled[head][part.start >> 8] = done\n\n\n@external\ndef expire(",
        "self.settled[head][part.start >> 8] |= 0\n\n\n@external\ndef expire(",
        scenes.a_batch_is_opened_at_once_and_each_challenge_settled_once,
    ),
    Mutant(
        "a challenge of a batch expires again and again",
        "audit.vy",
        "self.settled[head][part.start >> 8] = done\n\n\n@external\ndef anchor(",
        "self.settled[head][part.start >> 8] |= 0\n\n\n@external\ndef anchor(",
        scenes.a_batch_is_opened_at_once_and_each_challenge_settled_once,
    ),
    Mutant(
        "nothing is settled with success",
        "audit.vy",
        'assert done != before, "unknown"\n    self.settled[head][part.start >> 8] = done\n\n\n'
        "@external\ndef expire(",
        "self.settled[head][part.start >> 8] = done\n\n\n@external\ndef expire(",
        scenes.what_is_settled_already_stands_in_nobodys_way,
    ),
    Mutant(
        "nothing expires with success",
        "audit.vy",
        'assert done != before, "unknown"\n    self.settled[head][part.start >> 8] = done\n\n\n'
        "@external\ndef anchor(",
        "self.settled[head][part.start >> 8] = done\n\n\n@external\ndef anchor(",
        scenes.what_is_settled_already_stands_in_nobodys_way,
    ),
]


# Most of a compilation is the optimisation, of which no slip here is an example.
OPTIMISED, QUICK = "# pragma optimize gas\n", "# pragma optimize none\n"


def sources(sectors: int) -> dict[str, str]:
    sources = artefact.sources(sectors)
    assert sources["audit.vy"].count(OPTIMISED) == 1
    return {**sources, "audit.vy": sources["audit.vy"].replace(OPTIMISED, QUICK)}
