# pragma version 0.4.3
# pragma evm-version cancun
# pragma optimize gas
"""
The audit contract of Holdfast, for holdings with SECTORS sectors a block.

Owners register holdings and open challenges; a proof that passes proves itself, so anyone may bring
it; one that fails counts only with the node's signature. No funds are held, nobody has privileges.
A holding is its owner's address and, in the low 32 bits, its number among the owner's: so
only the owner can open a challenge for it, and its owner need not be stored.

A challenge is named by a hash that begins with its holding, and no name is used twice. The state of
a batch is kept by its head, a hash that begins with its owner. In its tree a leaf hashes 160 bytes
and an inner node 64: neither can be taken for the other.

Reasons of refusal: "unknown" (no such holding, or nothing open under that name), "open" (it is open
already), "used" (its seed was used, or a later one), "late", "early", "malformed" (can't be a proof,
a key or a challenge), "wrong" (a proof that fails, without the node's signature).
"""
import check

SECTORS: constant(uint256) = 16
MOST: constant(uint256) = 1024  # challenges opened at once
AT_ONCE: constant(uint256) = 128  # neighbouring challenges settled at once
ANSWERS: constant(uint256) = max(AT_ONCE // SECTORS, 1)
LEAF: constant(uint256) = 4  # words in a leaf of a batch's tree
DEPTH: constant(uint256) = 8
LOW_32: constant(uint256) = 2**32 - 1
LOW_64: constant(uint256) = 2**64 - 1
LOW_160: constant(uint256) = 2**160 - 1

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

event Anchored:
    owner: indexed(address)
    root: indexed(bytes32)
    size: uint64

ANSWER: constant(bytes32) = keccak256("Answer(uint256 holding,bytes32 challenge,bytes proof)")
DOMAIN: constant(bytes32) = keccak256(
    "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)

registered: public(HashMap[address, uint32])
keys: public(HashMap[uint256, uint256])
# 64 bits serial of the newest challenge that was opened by itself, then 160 of the node's address.
nodes: public(HashMap[uint256, uint256])
challenges: public(HashMap[uint256, HashMap[bytes32, uint256]])  # 160 bits target, 64 deadline
roots: HashMap[bytes32, bytes32]  # of batches, by their heads
settled: HashMap[bytes32, HashMap[uint256, uint256]]  # a bit for each challenge, 256 a word


@external
def register(node: address, points: uint256[SECTORS]) -> uint256:
    assert node != empty(address), "malformed"
    number: uint32 = self.registered[msg.sender]
    self.registered[msg.sender] = number + 1
    holding: uint256 = self._holding(msg.sender, convert(number, uint256))
    key: uint256 = check.enrol(points)
    self.keys[holding] = key
    self.nodes[holding] = convert(node, uint256)
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
    node: uint256 = self.nodes[holding]
    assert node != 0, "unknown"
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
    # The node signs for this name.
    challenge: bytes32 = keccak256(abi_encode(holding, asked, target, deadline))
    assert self.challenges[holding][challenge] == 0, "open"
    # A verdict clears the challenge's slot. The serial, with which its seed begins, is remembered.
    serial: uint256 = convert(seed, uint256) >> 192
    assert serial > node >> 160, "used"
    self.nodes[holding] = (serial << 160) | (node & LOW_160)
    self.challenges[holding][challenge] = (convert(target, uint256) << 64) | convert(
        deadline, uint256
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
    head: bytes32 = self._head(Batch(owner=msg.sender, seed=seed, deadline=deadline))
    root: bytes32 = self._root(head, words)
    opened: bytes32 = self.roots[head]
    assert opened != root, "open"
    assert opened == empty(bytes32), "used"
    self.roots[head] = root
    log OpenedMany(root=root, owner=msg.sender, seed=seed, deadline=deadline, words=words)
    return root


@external
def submit(holding: uint256, challenge: bytes32, proof: check.Proof, signature: Signature):
    state: uint256 = self._open(holding, challenge)
    assert block.timestamp <= self._deadline(state), "late"
    self.challenges[holding][challenge] = 0
    self._judge(holding, challenge, convert(state >> 64, address), proof, signature)


@external
def settle(
    batch: Batch,
    part: Part,
    answers: DynArray[Answer, ANSWERS],
    signatures: DynArray[Signature, ANSWERS],
):
    """
    Signatures are one for each answer, or none at all, which saves 400 gas a proof. What is settled
    already is left out; the others settle.
    """
    signed: bool = len(signatures) > 0
    assert not signed or len(signatures) == len(answers), "malformed"
    signature: Signature = empty(Signature)
    place: uint256 = 0
    head: bytes32 = self._head(batch)
    self._find(head, part)
    assert block.timestamp <= convert(batch.deadline, uint256), "late"
    owner: uint256 = convert(batch.owner, uint256) << 32
    before: uint256 = self.settled[head][part.start >> 8]
    done: uint256 = before
    for answer: Answer in answers:
        assert answer.offset < len(part.words), "unknown"
        if signed:
            signature = signatures[place]
            place = unsafe_add(place, 1)
        bit: uint256 = 1 << unsafe_add(part.start & 255, answer.offset)
        if done & bit != 0:
            continue
        done |= bit
        word: bytes32 = part.words[answer.offset]
        holding: uint256 = owner | self._number(word)
        self._judge(
            holding,
            keccak256(abi_encode(holding, head, word)),
            convert(convert(word, uint256) >> 96, address),
            answer.proof,
            signature,
        )
    assert done != before, "unknown"
    self.settled[head][part.start >> 8] = done


@external
def expire(holding: uint256, challenge: bytes32):
    assert block.timestamp > self._deadline(self._open(holding, challenge)), "early"
    self.challenges[holding][challenge] = 0
    log TimedOut(holding=holding, challenge=challenge)


@external
def expire_many(batch: Batch, part: Part, offsets: DynArray[uint256, AT_ONCE]):
    head: bytes32 = self._head(batch)
    self._find(head, part)
    assert block.timestamp > convert(batch.deadline, uint256), "early"
    before: uint256 = self.settled[head][part.start >> 8]
    done: uint256 = before
    for offset: uint256 in offsets:
        assert offset < len(part.words), "unknown"
        bit: uint256 = 1 << unsafe_add(part.start & 255, offset)
        if done & bit != 0:
            continue
        done |= bit
        word: bytes32 = part.words[offset]
        holding: uint256 = self._holding(batch.owner, self._number(word))
        assert self.keys[holding] != 0, "unknown"
        log TimedOut(holding=holding, challenge=keccak256(abi_encode(holding, head, word)))
    assert done != before, "unknown"
    self.settled[head][part.start >> 8] = done


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
    return state & LOW_64


@internal
@view
def _open(holding: uint256, challenge: bytes32) -> uint256:
    state: uint256 = self.challenges[holding][challenge]
    assert state != 0, "unknown"
    return state


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
    assert convert(signer, uint256) == self.nodes[holding] & LOW_160, "wrong"
    log Failed(holding=holding, challenge=challenge, digest=digest)


@internal
@pure
def _number(word: bytes32) -> uint256:
    return (convert(word, uint256) >> 64) & LOW_32


@internal
@pure
def _head(batch: Batch) -> bytes32:
    """
    Return what a batch is kept by. Its owner is in it, so nobody reaches the batches of another.
    """
    return keccak256(abi_encode(batch))


@internal
@view
def _find(head: bytes32, part: Part):
    """
    Refuse a part that is not where it claims to be in the batch that was opened under this head.
    """
    words: uint256 = len(part.words)
    assert words > 0, "malformed"
    levels: uint256 = 2  # of words, in a leaf
    for level: uint256 in range(2, 8):
        if (1 << level) >= words:
            levels = level
            break
    assert part.start % (1 << levels) == 0, "malformed"
    root: bytes32 = self._climb(self._root(head, part.words), part.start >> levels, part.path)
    assert self.roots[head] == root, "unknown"


@internal
@pure
def _root(head: bytes32, words: DynArray[bytes32, MOST]) -> bytes32:
    """
    Return the root of the words' tree. A leaf is the hash of the head and four words, an inner node
    that of two nodes. A word or node that is missing at the end is zero.
    """
    nodes: bytes32[MOST // LEAF + 1] = empty(bytes32[MOST // LEAF + 1])
    leaf: bytes32[LEAF] = empty(bytes32[LEAF])
    last: uint256 = 0
    count: uint256 = 0
    for word: bytes32 in words:
        assert convert(word, uint256) > last, "malformed"  # ascending: none stands here twice
        last = convert(word, uint256)
        leaf[count % LEAF] = word
        count = unsafe_add(count, 1)
        if count % LEAF == 0:
            nodes[unsafe_sub(count // LEAF, 1)] = keccak256(abi_encode(head, leaf))
            leaf = empty(bytes32[LEAF])
    if count % LEAF != 0:
        nodes[count // LEAF] = keccak256(abi_encode(head, leaf))
    count = unsafe_add(count, LEAF - 1) // LEAF
    for level: uint256 in range(DEPTH):
        if count == 1:
            break
        if count % 2 == 1:
            nodes[count] = empty(bytes32)
        count = unsafe_add(count, 1) // 2
        left: uint256 = 0
        for i: uint256 in range(count, bound=MOST // LEAF):
            nodes[i] = keccak256(concat(nodes[left], nodes[unsafe_add(left, 1)]))
            left = unsafe_add(left, 2)
    return nodes[0]


@internal
@pure
def _climb(leaf: bytes32, index: uint256, path: DynArray[bytes32, DEPTH]) -> bytes32:
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
