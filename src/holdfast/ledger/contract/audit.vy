# pragma version 0.4.3
# pragma evm-version cancun
# pragma optimize gas
"""
The audit contract of Holdfast, for holdings with SECTORS sectors a block.

Owners register holdings and open challenges; a proof that passes proves itself, so anyone may bring
it; one that fails counts only with the node's signature. No funds are held, nobody has privileges.
A holding is its owner's address and, in the low 32 bits, its number among the owner's: so
only the owner can open a challenge for it, and its owner need not be stored.

Reasons of refusal: "unknown" (no such holding, or nothing open under that name), "open" (it is open
already), "late", "early", "malformed" (can't be a proof, a key or a challenge), "wrong" (a proof
that fails, without the node's signature), "upheld" (a verdict that the check confirms).
"""
import check

SECTORS: constant(uint256) = 16
MOST: constant(uint256) = 1024  # challenges opened at once
AT_ONCE: constant(uint256) = 128  # neighbouring challenges settled at once
ANSWERS: constant(uint256) = max(AT_ONCE // SECTORS, 1)
DEPTH: constant(uint256) = 10
VERDICTS: constant(uint256) = 32  # levels of a tree of verdicts
LOW_32: constant(uint256) = 2**32 - 1
LOW_64: constant(uint256) = 2**64 - 1

struct Signature:
    v: uint256
    r: uint256
    s: uint256

# The word of a challenge in a batch: 20 bytes target, 4 number of the holding, 4 blocks sampled,
# 4 of the inventory's hash, which shows a disagreement; the target binds the whole hash.
struct Batch:
    owner: address
    seed: bytes32
    deadline: uint64

# Some neighbours in a batch, and the way from their subtree's root to the root of all.
struct Part:
    start: uint256
    words: DynArray[bytes32, AT_ONCE]
    path: DynArray[bytes32, DEPTH]

struct Answer:
    offset: uint256  # among the words of the part
    proof: check.Proof

struct Verdict:
    holding: uint256
    challenge: bytes32
    target: address
    digest: bytes32
    passed: bool

event Registered:
    holding: indexed(uint256)
    node: indexed(address)
    key: uint256

event Opened:
    holding: indexed(uint256)
    challenge: bytes32
    seed: bytes32
    inventory: bytes32
    blocks: uint64
    samples: uint64
    target: address
    deadline: uint64

event OpenedMany:
    root: indexed(bytes32)
    owner: indexed(address)
    seed: bytes32
    deadline: uint64
    words: DynArray[bytes32, MOST]

event Passed:
    holding: indexed(uint256)
    challenge: bytes32

event Failed:
    holding: indexed(uint256)
    challenge: bytes32
    digest: bytes32

event TimedOut:
    holding: indexed(uint256)
    challenge: bytes32

event Posted:
    holding: indexed(uint256)
    challenge: bytes32
    digest: bytes32
    passed: bool
    until: uint64

event PostedMany:
    owner: indexed(address)
    root: indexed(bytes32)
    until: uint64

event Contested:
    holding: indexed(uint256)
    challenge: bytes32
    passed: bool

event Anchored:
    owner: indexed(address)
    root: indexed(bytes32)
    size: uint64

WINDOW: public(immutable(uint64))  # seconds in which a posted verdict may be contested
ANSWER: constant(bytes32) = keccak256("Answer(uint256 holding,bytes32 challenge,bytes proof)")
DOMAIN: constant(bytes32) = keccak256(
    "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)

registered: public(HashMap[address, uint32])
keys: public(HashMap[uint256, uint256])
nodes: public(HashMap[uint256, address])
# Open: 160 bits target, 64 deadline, 32 zeros. Posted: 224 bits of the verdict's hash, then 1.
challenges: public(HashMap[uint256, HashMap[bytes32, uint256]])
batches: HashMap[bytes32, bool]
settled: HashMap[bytes32, HashMap[uint256, uint256]]  # a bit for each challenge, 256 a word
verdicts: HashMap[address, HashMap[bytes32, uint64]]  # until when the tree may be contested
contested: HashMap[bytes32, HashMap[bytes32, bool]]


@deploy
def __init__(window: uint64):
    WINDOW = window


@external
def register(node: address, points: uint256[SECTORS]) -> uint256:
    assert node != empty(address), "malformed"
    number: uint32 = self.registered[msg.sender]
    self.registered[msg.sender] = number + 1
    holding: uint256 = self._holding(msg.sender, convert(number, uint256))
    key: uint256 = check.enrol(points)
    self.keys[holding] = key
    self.nodes[holding] = node
    log Registered(holding=holding, node=node, key=key)
    return holding


@external
def open(
    number: uint32,
    seed: bytes32,
    inventory: bytes32,
    blocks: uint64,
    samples: uint64,
    target: address,
    deadline: uint64,
) -> bytes32:
    holding: uint256 = self._holding(msg.sender, convert(number, uint256))
    assert self.keys[holding] != 0, "unknown"
    assert 0 < samples and samples <= blocks and target != empty(address), "malformed"
    assert block.timestamp <= convert(deadline, uint256), "late"
    asked: bytes32 = sha256(
        concat(
            b"holdfast/v1/challenge\x00",
            seed,
            inventory,
            convert(blocks, bytes8),
            convert(samples, bytes8),
            convert(empty(uint64), bytes8),
            convert(blocks, bytes8),
        )
    )
    # The node signs for this name. Opened again, with another target or for longer, it has another.
    challenge: bytes32 = keccak256(abi_encode(asked, target, deadline))
    assert self.challenges[holding][challenge] == 0, "open"
    self.challenges[holding][challenge] = (convert(target, uint256) << 96) | (
        convert(deadline, uint256) << 32
    )
    log Opened(
        holding=holding,
        challenge=challenge,
        seed=seed,
        inventory=inventory,
        blocks=blocks,
        samples=samples,
        target=target,
        deadline=deadline,
    )
    return challenge


@external
def open_many(seed: bytes32, deadline: uint64, words: DynArray[bytes32, MOST]) -> bytes32:
    assert len(words) > 0, "malformed"
    assert block.timestamp <= convert(deadline, uint256), "late"
    batch: Batch = Batch(owner=msg.sender, seed=seed, deadline=deadline)
    root: bytes32 = self._root(self._head(batch), words)
    assert not self.batches[root], "open"
    self.batches[root] = True
    log OpenedMany(root=root, owner=msg.sender, seed=seed, deadline=deadline, words=words)
    return root


@external
def submit(holding: uint256, challenge: bytes32, proof: check.Proof, signature: Signature):
    state: uint256 = self._open(holding, challenge)
    assert block.timestamp <= self._deadline(state), "late"
    self.challenges[holding][challenge] = 0
    self._judge(holding, challenge, convert(state >> 96, address), proof, signature)


@external
def settle(
    batch: Batch,
    part: Part,
    answers: DynArray[Answer, ANSWERS],
    signatures: DynArray[Signature, ANSWERS],
):
    """
    Signatures are one for each answer, or none at all, which saves 400 gas a proof.
    """
    signed: bool = len(signatures) > 0
    assert not signed or len(signatures) == len(answers), "malformed"
    signature: Signature = empty(Signature)
    place: uint256 = 0
    head: bytes32 = self._head(batch)
    root: bytes32 = self._find(head, part)
    assert block.timestamp <= convert(batch.deadline, uint256), "late"
    owner: uint256 = convert(batch.owner, uint256) << 32
    done: uint256 = self.settled[root][part.start >> 8]
    for answer: Answer in answers:
        assert answer.offset < len(part.words), "unknown"
        bit: uint256 = 1 << unsafe_add(part.start & 255, answer.offset)
        assert done & bit == 0, "unknown"
        done |= bit
        word: bytes32 = part.words[answer.offset]
        if signed:
            signature = signatures[place]
            place = unsafe_add(place, 1)
        self._judge(
            owner | self._number(word),
            keccak256(concat(head, word)),
            convert(convert(word, uint256) >> 96, address),
            answer.proof,
            signature,
        )
    self.settled[root][part.start >> 8] = done


@external
def expire(holding: uint256, challenge: bytes32):
    assert block.timestamp > self._deadline(self._open(holding, challenge)), "early"
    self.challenges[holding][challenge] = 0
    log TimedOut(holding=holding, challenge=challenge)


@external
def expire_many(batch: Batch, part: Part, offsets: DynArray[uint256, AT_ONCE]):
    head: bytes32 = self._head(batch)
    root: bytes32 = self._find(head, part)
    assert block.timestamp > convert(batch.deadline, uint256), "early"
    done: uint256 = self.settled[root][part.start >> 8]
    for offset: uint256 in offsets:
        assert offset < len(part.words), "unknown"
        bit: uint256 = 1 << unsafe_add(part.start & 255, offset)
        assert done & bit == 0, "unknown"
        done |= bit
        word: bytes32 = part.words[offset]
        holding: uint256 = self._holding(batch.owner, self._number(word))
        assert self.keys[holding] != 0, "unknown"
        log TimedOut(holding=holding, challenge=keccak256(concat(head, word)))
    self.settled[root][part.start >> 8] = done


@external
def post(number: uint32, challenge: bytes32, digest: bytes32, passed: bool):
    """
    The owner's verdict on an open challenge. It stands unless it is contested in time.
    """
    holding: uint256 = self._holding(msg.sender, convert(number, uint256))
    target: address = convert(self._open(holding, challenge) >> 96, address)
    until: uint64 = convert(block.timestamp, uint64) + WINDOW
    verdict: Verdict = Verdict(
        holding=holding, challenge=challenge, target=target, digest=digest, passed=passed
    )
    self.challenges[holding][challenge] = self._posted(verdict, until)
    log Posted(holding=holding, challenge=challenge, digest=digest, passed=passed, until=until)


@external
def post_many(root: bytes32):
    """
    The owner's verdicts on challenges that were never opened here, as the root of a tree of them.
    """
    assert self.verdicts[msg.sender][root] == 0, "open"
    until: uint64 = convert(block.timestamp, uint64) + WINDOW
    self.verdicts[msg.sender][root] = until
    log PostedMany(owner=msg.sender, root=root, until=until)


@external
def contest(verdict: Verdict, until: uint64, proof: check.Proof):
    state: uint256 = self.challenges[verdict.holding][verdict.challenge]
    assert state == self._posted(verdict, until), "unknown"
    assert block.timestamp <= convert(until, uint256), "late"
    self.challenges[verdict.holding][verdict.challenge] = 0
    self._overturn(verdict, proof)


@external
def contest_many(
    verdict: Verdict, index: uint256, path: DynArray[bytes32, VERDICTS], proof: check.Proof
):
    leaf: bytes32 = keccak256(abi_encode(verdict))
    root: bytes32 = self._climb(leaf, index, path)
    until: uint64 = self.verdicts[convert(convert(verdict.holding >> 32, uint160), address)][root]
    assert until != 0 and not self.contested[root][leaf], "unknown"
    assert block.timestamp <= convert(until, uint256), "late"
    self.contested[root][leaf] = True
    self._overturn(verdict, proof)


@external
def anchor(root: bytes32, size: uint64):
    log Anchored(owner=msg.sender, root=root, size=size)


@internal
@pure
def _holding(owner: address, number: uint256) -> uint256:
    return (convert(owner, uint256) << 32) | number


@internal
@pure
def _deadline(state: uint256) -> uint256:
    return (state >> 32) & LOW_64


@internal
@view
def _open(holding: uint256, challenge: bytes32) -> uint256:
    state: uint256 = self.challenges[holding][challenge]
    assert state != 0 and state & LOW_32 == 0, "unknown"
    return state


@internal
@pure
def _posted(verdict: Verdict, until: uint64) -> uint256:
    return ((convert(keccak256(abi_encode(verdict, until)), uint256) >> 32) << 32) | 1


@internal
def _judge(
    holding: uint256,
    challenge: bytes32,
    target: address,
    proof: check.Proof,
    signature: Signature,
):
    key: uint256 = self.keys[holding]
    assert key != 0, "unknown"
    if check.passes(key, target, proof):
        log Passed(holding=holding, challenge=challenge)
        return
    digest: bytes32 = check.digest(proof)
    message: bytes32 = keccak256(abi_encode(ANSWER, holding, challenge, digest))
    domain: bytes32 = keccak256(
        abi_encode(DOMAIN, keccak256("Holdfast"), keccak256("1"), chain.id, self)
    )
    signed: bytes32 = keccak256(concat(x"1901", domain, message))
    signer: address = ecrecover(signed, signature.v, signature.r, signature.s)
    assert signer == self.nodes[holding], "wrong"
    log Failed(holding=holding, challenge=challenge, digest=digest)


@internal
def _overturn(verdict: Verdict, proof: check.Proof):
    """
    A verdict of failure falls to any proof that passes, one of success to its own failing proof.
    """
    key: uint256 = self.keys[verdict.holding]
    assert key != 0, "unknown"
    passed: bool = check.passes(key, verdict.target, proof)
    assert not verdict.passed or verdict.digest == check.digest(proof), "unknown"
    assert passed != verdict.passed, "upheld"
    log Contested(holding=verdict.holding, challenge=verdict.challenge, passed=passed)


@internal
@pure
def _number(word: bytes32) -> uint256:
    return (convert(word, uint256) >> 64) & LOW_32


@internal
@pure
def _head(batch: Batch) -> bytes32:
    """
    Return what stands before each word of a batch: so a leaf binds all, and is no inner node.
    """
    return keccak256(abi_encode(batch))


@internal
@view
def _find(head: bytes32, part: Part) -> bytes32:
    """
    Return the root of an open batch that has the part where it claims to be.
    """
    words: uint256 = len(part.words)
    assert words > 0, "malformed"
    levels: uint256 = 0
    for level: uint256 in range(8):
        if (1 << level) >= words:
            levels = level
            break
    assert part.start % (1 << levels) == 0, "malformed"
    root: bytes32 = self._climb(self._root(head, part.words), part.start >> levels, part.path)
    assert self.batches[root], "unknown"
    return root


@internal
@pure
def _root(head: bytes32, words: DynArray[bytes32, MOST]) -> bytes32:
    """
    Return the root of the words' tree; a node without a right neighbour is hashed with zero.
    """
    nodes: bytes32[MOST + 1] = empty(bytes32[MOST + 1])
    count: uint256 = 0
    for word: bytes32 in words:
        nodes[count] = keccak256(concat(head, word))
        count = unsafe_add(count, 1)
    for level: uint256 in range(DEPTH):
        if count == 1:
            break
        if count & 1 == 1:
            nodes[count] = empty(bytes32)
        count = unsafe_add(count, 1) >> 1
        left: uint256 = 0
        for i: uint256 in range(count, bound=MOST):
            nodes[i] = keccak256(concat(nodes[left], nodes[unsafe_add(left, 1)]))
            left = unsafe_add(left, 2)
    return nodes[0]


@internal
@pure
def _climb(leaf: bytes32, index: uint256, path: DynArray[bytes32, VERDICTS]) -> bytes32:
    node: bytes32 = leaf
    place: uint256 = index
    for other: bytes32 in path:
        if place % 2 == 0:
            node = keccak256(concat(node, other))
        else:
            node = keccak256(concat(other, node))
        place //= 2
    assert place == 0, "malformed"
    return node
