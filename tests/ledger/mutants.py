"""Plausible slips in the contract. Each is one replacement in its source."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    sectors: int = 1


MUTANTS = [
    Mutant("values of q are taken", "check.vy", "sigma < Q and mu < Q", "mu < Q"),
    Mutant("values of mu are not compared with q", "check.vy", "sigma < Q and mu < Q", "sigma < Q"),
    Mutant(
        "the target may be zero", "check.vy", "== target and target != empty(address)", "== target"
    ),
    Mutant("zeros are not special", "check.vy", "if mu == 0:", "if mu == Q:"),
    Mutant("zeros pass with any sign", "check.vy", "Q - sigma, GX", "sigma, GX"),
    Mutant(
        "keys are not checked",
        "check.vy",
        'x, x) != empty(address), "malformed"',
        'x, x) != msg.sender, "malformed"',
    ),
    Mutant(
        "a late proof passes",
        "audit.vy",
        'assert block.timestamp <= self._deadline(state), "late"',
        "pass",
    ),
    Mutant(
        "a late batch passes",
        "audit.vy",
        "block.timestamp <= convert(batch.deadline, uint256)",
        "0 < convert(batch.deadline, uint256)",
    ),
    Mutant(
        "a challenge expires before its time",
        "audit.vy",
        "block.timestamp > self._deadline(self._open(",
        "0 < self._deadline(self._open(",
    ),
    Mutant(
        "a proof is taken twice",
        "audit.vy",
        "    self.challenges[holding][challenge] = 0\n    self._judge(",
        "    self._judge(",
    ),
    Mutant(
        "an expired challenge stays open",
        "audit.vy",
        "    self.challenges[holding][challenge] = 0\n    log TimedOut",
        "    log TimedOut",
    ),
    Mutant(
        "anyone may fail a node",
        "audit.vy",
        'assert signer == self.nodes[holding], "wrong"',
        'assert signer != empty(address), "wrong"',
    ),
    Mutant(
        "the signature does not name the challenge",
        "audit.vy",
        "abi_encode(ANSWER, holding, challenge, digest)",
        "abi_encode(ANSWER, holding, holding, digest)",
    ),
    Mutant(
        "the signature does not name the chain",
        "audit.vy",
        "chain.id, self)",
        "block.timestamp, self)",
    ),
    Mutant(
        "a settled challenge of a batch is open",
        "audit.vy",
        "done |= bit\n        word: bytes32 = part.words[answer.offset]",
        "word: bytes32 = part.words[answer.offset]",
    ),
    Mutant("a batch is not looked up", "audit.vy", 'assert self.batches[root], "unknown"', "pass"),
    Mutant("an index has second names", "audit.vy", 'assert place == 0, "malformed"', "pass"),
    Mutant(
        "a stranger's root counts",
        "audit.vy",
        "convert(convert(verdict.holding >> 32, uint160), address)",
        "msg.sender",
    ),
    Mutant(
        "a verdict may be contested at any time",
        "audit.vy",
        'assert block.timestamp <= convert(until, uint256), "late"\n    self.challenges',
        "self.challenges",
    ),
    Mutant(
        "any failing proof overturns a good verdict",
        "audit.vy",
        'assert not verdict.passed or verdict.digest == check.digest(proof), "unknown"',
        "pass",
    ),
    Mutant(
        "a true verdict is overturned",
        "audit.vy",
        'assert passed != verdict.passed, "upheld"',
        "pass",
    ),
    Mutant("a verdict falls twice", "audit.vy", "    self.contested[root][leaf] = True\n", ""),
    Mutant(
        "a holding nobody registered passes",
        "audit.vy",
        '    assert key != 0, "unknown"\n    if check',
        "    if check",
    ),
    Mutant(
        "hints are not checked",
        "check.vy",
        'assert convert(named, uint256) == hashed, "malformed"',
        "pass",
        4,
    ),
    Mutant(
        "the sum is not the sum",
        "check.vy",
        "z = uint256_mulmod(z, h, P)",
        "z = uint256_mulmod(h, h, P)",
        4,
    ),
    Mutant(
        "the rest is not carried",
        "check.vy",
        "rest = uint256_addmod(rest, unsafe_sub(Q, power), Q)",
        "pass",
        4,
    ),
]
