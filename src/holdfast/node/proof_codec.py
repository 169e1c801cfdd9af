"""The binary form of a request for proofs and of its answer.

A request carries 1 to 64 challenges over any of the caller's holdings; the answer has a signed
proof or a refusal for each, in the same order. Numbers are big-endian. A reader accepts exactly
what a writer writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any

from holdfast.errors import InputError, MalformedError
from holdfast.ledger.interface import NUMBER_BITS, Answer, Domain, Opening
from holdfast.ledger.signing import SIGNATURE_BYTES
from holdfast.node.proof_messages import AnswerTo, ProofQuestion
from holdfast.node.wire import Reason
from holdfast.pdp import Challenge, Proof
from holdfast.pdp.field import MAX_SECTORS, SCALAR_BYTES, scalar_to_bytes
from holdfast.pdp.inventory import HASH_BYTES, MAX_BLOCKS

MAX_QUESTIONS = 64
MAX_REASON_LETTERS = 500
REQUEST_MAGIC, ANSWER_MAGIC = b"HFPQ", b"HFPA"
VERSION = 1

_REQUEST_HEAD = Struct(">4sBIH")  # magic, version, milliseconds, questions
_QUESTION = Struct(">32s32s32sQQQQB")  # key id, the challenge's fields, who asks
_LEDGER = Struct(">Q20s32s20sQ")  # chain, contract, holding, target, deadline
_SEED = Struct(">32s")  # of the batch
_NO_LEDGER, _ALONE, _IN_BATCH = range(3)  # who asks

_ANSWER_HEAD = Struct(">4sBH")  # magic, version, entries
_PROOF = Struct(f">{HASH_BYTES}s{SIGNATURE_BYTES}sH")  # challenge, signature, sectors
_REFUSAL = Struct(">BH")  # bytes of the code and of the message
_REFUSED, _PROVED = b"\0", b"\1"

_MAX_HOLDING = 1 << 160 + NUMBER_BITS
_MAX_NUMBER = 1 << 63
_MAX_MILLISECONDS = 2**32 - 1
MAX_REQUEST_BYTES = _REQUEST_HEAD.size + MAX_QUESTIONS * (
    _QUESTION.size + _LEDGER.size + _SEED.size
)


@dataclass(frozen=True)
class ProofRequest:
    """Challenges to prove, and how long the caller waits for the whole answer."""

    questions: tuple[ProofQuestion, ...]
    milliseconds: int

    def encode(self) -> bytes:
        if not 1 <= len(self.questions) <= MAX_QUESTIONS:
            raise InputError(
                f"a request has 1 to {MAX_QUESTIONS} challenges, not {len(self.questions)}"
            )
        milliseconds = min(max(self.milliseconds, 1), _MAX_MILLISECONDS)
        head = _REQUEST_HEAD.pack(REQUEST_MAGIC, VERSION, milliseconds, len(self.questions))
        return head + b"".join(map(_encode_question, self.questions))

    @classmethod
    def decode(cls, content: bytes) -> "ProofRequest":
        cursor = _Cursor(content, "the request for proofs")
        magic, version, milliseconds, count = cursor.take(_REQUEST_HEAD)
        cursor.expect(magic == REQUEST_MAGIC, "is not one")
        cursor.expect(version == VERSION, f"is not in version {VERSION}, the one this node reads")
        cursor.expect(milliseconds > 0, "leaves no time for an answer")
        cursor.expect(1 <= count <= MAX_QUESTIONS, f"has not 1 to {MAX_QUESTIONS} challenges")
        questions = tuple(_decode_question(cursor) for _ in range(count))
        cursor.end()
        return cls(questions, milliseconds)


def encode_answers(answers: Sequence[Answer | Reason]) -> bytes:
    """Return the answer to a request: an entry for each of its challenges, in order."""
    entries = (
        _encode_reason(answer) if isinstance(answer, Reason) else _encode_proof(answer)
        for answer in answers
    )
    return _ANSWER_HEAD.pack(ANSWER_MAGIC, VERSION, len(answers)) + b"".join(entries)


def decode_answers(content: bytes, count: int) -> list[Answer | Reason]:
    """Return the entries of an answer, of which there must be `count`.

    Numbers of a proof may have any 256 bits. Whether they are below q is for the caller to check.
    """
    cursor = _Cursor(content, "the answer with proofs")
    magic, version, entries = cursor.take(_ANSWER_HEAD)
    cursor.expect((magic, version) == (ANSWER_MAGIC, VERSION), f"is not one of version {VERSION}")
    cursor.expect(entries == count, f"has {entries} entries where {count} were asked for")
    answers = [_decode_entry(cursor) for _ in range(count)]
    cursor.end()
    return answers


class _Cursor:
    """Takes fields from bytes, one after another."""

    def __init__(self, content: bytes, name: str) -> None:
        self._content, self._name, self._at = content, name, 0

    def take(self, fields: Struct) -> tuple[Any, ...]:
        return fields.unpack(self.take_bytes(fields.size))

    def take_bytes(self, length: int) -> bytes:
        taken = self._content[self._at : self._at + length]
        self.expect(len(taken) == length, "is cut off")
        self._at += length
        return taken

    def take_text(self, length: int) -> str:
        try:
            return self.take_bytes(length).decode()
        except UnicodeDecodeError as error:
            raise MalformedError(f"{self._name} has a text that is not UTF-8") from error

    def expect(self, fulfilled: bool, otherwise: str) -> None:
        if not fulfilled:
            raise MalformedError(f"{self._name} {otherwise}")

    def end(self) -> None:
        self.expect(self._at == len(self._content), "has bytes after its end")


def _encode_question(question: ProofQuestion) -> bytes:
    challenge, to = question.challenge, question.to
    batch = None if to is None else to.opening.batch
    asker = _NO_LEDGER if to is None else _ALONE if batch is None else _IN_BATCH
    content = _QUESTION.pack(
        question.key_id,
        challenge.seed,
        challenge.inventory_hash,
        challenge.blocks,
        challenge.samples,
        challenge.start,
        challenge.stop,
        asker,
    )
    if to is None:
        return content
    holding = to.holding_id.to_bytes(32, "big")
    where = (to.domain.chain, to.domain.contract, holding, to.opening.target, to.opening.deadline)
    return content + _LEDGER.pack(*where) + (b"" if batch is None else _SEED.pack(batch))


def _decode_question(cursor: _Cursor) -> ProofQuestion:
    key_id, seed, inventory_hash, blocks, samples, start, stop, asker = cursor.take(_QUESTION)
    cursor.expect(blocks <= MAX_BLOCKS, f"has a challenge over more than {MAX_BLOCKS} blocks")
    cursor.expect(asker <= _IN_BATCH, "does not say whether a ledger asks")
    try:
        challenge = Challenge(seed, inventory_hash, blocks, samples, start, stop)
    except InputError as error:
        raise MalformedError(f"the request for proofs: {error}") from error
    if asker == _NO_LEDGER:
        return ProofQuestion(key_id, challenge)
    chain, contract, number, target, deadline = cursor.take(_LEDGER)
    holding = int.from_bytes(number, "big")
    (batch,) = cursor.take(_SEED) if asker == _IN_BATCH else (None,)
    cursor.expect(chain < _MAX_NUMBER and deadline < _MAX_NUMBER, "has too large a number")
    cursor.expect(holding < _MAX_HOLDING, "names a holding that no ledger has")
    to = AnswerTo(Domain(chain, contract), holding, Opening(target, deadline, batch))
    return ProofQuestion(key_id, challenge, to)


def _encode_proof(answer: Answer) -> bytes:
    proof = answer.proof
    numbers = b"".join(map(scalar_to_bytes, (proof.sigma, *proof.mu)))
    head = _PROOF.pack(proof.challenge_id, answer.signature, len(proof.mu))
    return _PROVED + head + numbers


def _encode_reason(reason: Reason) -> bytes:
    code = reason.code.encode()
    message = reason.message[:MAX_REASON_LETTERS].encode(errors="replace")
    return _REFUSED + _REFUSAL.pack(len(code), len(message)) + code + message


def _decode_entry(cursor: _Cursor) -> Answer | Reason:
    kind = cursor.take_bytes(1)
    if kind == _REFUSED:
        code, message = cursor.take(_REFUSAL)
        return Reason(code=cursor.take_text(code), message=cursor.take_text(message))
    cursor.expect(kind == _PROVED, "has an entry that is neither a proof nor a refusal")
    challenge_id, signature, sectors = cursor.take(_PROOF)
    cursor.expect(1 <= sectors <= MAX_SECTORS, f"has a proof without 1 to {MAX_SECTORS} sectors")
    numbers = cursor.take_bytes(SCALAR_BYTES * (sectors + 1))
    sigma, *mu = (
        int.from_bytes(numbers[at : at + SCALAR_BYTES], "big")
        for at in range(0, len(numbers), SCALAR_BYTES)
    )
    return Answer(Proof(challenge_id, sigma, tuple(mu)), signature)
