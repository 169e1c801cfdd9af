"""What answers in a node's name may send anything: an audit ends all the same, as a timeout.

Each audit passes first, at the honest node.
"""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import repeat
from threading import Event, Thread

import pytest
from tests.adversaries.stage import Stage, Turncoat

from holdfast.errors import NodeError
from holdfast.evidence.leaf import Outcome
from holdfast.ledger.interface import Answer
from holdfast.node.client import node_facts
from holdfast.node.holding import Holding as Kept
from holdfast.node.proof_messages import ProofQuestion
from holdfast.node.wire import Code, NodeRefusedError
from holdfast.owner import Holding
from holdfast.pdp.field import Q

Script = Callable[[], Iterator[bytes]]


class Garbler:
    """Listens on a port and answers whatever comes with the same bytes."""

    def __init__(self, script: Script, pace: float) -> None:
        self._script, self._pace, self._over = script, pace, Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while not self._over.is_set():
            with suppress(TimeoutError):
                connection, _ = self._listener.accept()
                with connection, suppress(OSError):
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(5)
        head, _, body = _received(connection).partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or b"0")
        while len(body) < length:
            body += connection.recv(1 << 16)
        for piece in self._script():
            connection.sendall(piece)
            if self._over.wait(self._pace):
                return


def _received(connection: socket.socket) -> bytes:
    content = b""
    while b"\r\n\r\n" not in content:
        piece = connection.recv(1 << 16)
        if not piece:
            raise ConnectionError
        content += piece
    return content


@contextmanager
def garbling(script: Script, pace: float = 0.0) -> Iterator[str]:
    garbler = Garbler(script, pace)
    try:
        yield garbler.url
    finally:
        garbler.close()


def moved(stage: Stage, holding: Holding, url: str) -> Holding:
    """Return the holding as if its node answered there."""
    client = stage.client(url, holding.record.node, proof_seconds=0.5)
    return replace(holding, node=client)


def http(body: bytes, status: str = "200 OK", *heads: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", "connection: close", *heads]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def refusal(code: str, time: str = "null", message: str = "no") -> bytes:
    text = f'{{"error": {{"code": "{code}", "message": {json.dumps(message)}, "time": {time}}}}}'
    return text.encode()


ANSWERS = {
    "nothing": b"",
    "no HTTP": b"garbage\r\n\r\n",
    "half a head": b"HTTP/1.1 200",
    "a page": http(b"<html>"),
    "no text": http(b"\xff\xfe\x00"),
    "a list": http(b"[]"),
    "an empty object": http(b"{}"),
    "brackets within brackets": http(b"[" * 100_000),
    "a number for a proof": http(b'{"proof": 1, "signature": "00"}'),
    "a proof of nothing": http(json.dumps({"proof": "{}", "signature": "00" * 65}).encode()),
    "half a body": http(b"{}" * 10)[:-5],
    "a bad coding": http(b"\x1f\x8b garbage", "200 OK", "content-encoding: gzip"),
    "a length that is no number": http(b"{}").replace(b"length: 2", b"length: x"),
    "another place": http(b"", "302 Found", "location: http://127.0.0.1:9/"),
    "an error without reason": http(b"<html>", "500 Internal Server Error"),
    "an unknown reason": http(refusal("whim"), "403 Forbidden"),
    "codes for a terminal": http(refusal("storage", message="\x1b[2J\n" * 9999), "503 Busy"),
    "busy for ever": http(refusal("busy"), "429 Too Many Requests"),
    "a clock beyond all years": http(refusal("clock", "1e300"), "401 Unauthorized"),
    "a clock that is no number": http(refusal("clock", "NaN"), "401 Unauthorized"),
}


@pytest.mark.slow
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS.keys())
def test_whatever_is_sent_the_audit_ends_as_a_timeout(stage: Stage, answer: bytes) -> None:
    node, url = stage.node()
    holding = stage.holding(node, url, stage.content(40))
    assert stage.audit(holding, 20).outcome is Outcome.PASSED
    with garbling(lambda: iter([answer])) as elsewhere:
        result = stage.audit(moved(stage, holding, elsewhere), 20)
    assert result.outcome is Outcome.TIMED_OUT
    assert result.reason
    assert "can't reach" not in result.reason, "it took the challenge"
    assert result.reason.isprintable()
    assert len(result.reason) < 1000


ENDLESS = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNK = b"%x\r\n%b\r\n" % (1 << 20, b" " * (1 << 20))


@pytest.mark.slow
def test_a_body_without_end_is_not_taken_into_memory(stage: Stage) -> None:
    node, url = stage.node()
    holding = stage.holding(node, url, stage.content(40))
    assert stage.audit(holding, 20).outcome is Outcome.PASSED

    def flood() -> Iterator[bytes]:
        yield ENDLESS
        yield from repeat(CHUNK)

    with garbling(flood) as elsewhere:
        with pytest.raises(NodeError, match="more than any answer has"):
            node_facts(elsewhere)
        with pytest.raises(NodeError, match="more than any answer has"):
            moved(stage, holding, elsewhere).node.holdings()


@pytest.mark.slow
@pytest.mark.parametrize("start", [b"HTTP/1.1 200 OK\r\nx: ", ENDLESS], ids=["head", "body"])
def test_an_answer_that_drips_is_hung_up_on(stage: Stage, start: bytes) -> None:
    node, url = stage.node()
    holding = stage.holding(node, url, stage.content(40))
    assert stage.audit(holding, 20).outcome is Outcome.PASSED

    def drip() -> Iterator[bytes]:
        yield start
        yield from repeat(b"1\r\n \r\n" if start is ENDLESS else b"x")

    with garbling(drip, pace=0.05) as elsewhere:
        result = stage.audit(moved(stage, holding, elsewhere), 20)
    assert result.outcome is Outcome.TIMED_OUT
    assert stage.audit(holding, 20).outcome is Outcome.PASSED


def test_a_proof_that_cannot_be_one_neither_passes_nor_fails(any_stage: Stage) -> None:
    node, url = any_stage.node()
    holding = any_stage.holding(node, url, any_stage.content(40))
    assert any_stage.audit(holding, 20).outcome is Outcome.PASSED

    def of_q(node: Turncoat, holding: Kept, question: ProofQuestion) -> Answer:
        honest = super(Turncoat, node).prove(holding, question)
        return node.signed(question, replace(honest.proof, sigma=Q))

    def too_wide(node: Turncoat, holding: Kept, question: ProofQuestion) -> Answer:
        proof = holding.prove(question.challenge)
        return node.signed(question, replace(proof, mu=(*proof.mu, 1)))

    for way in (of_q, too_wide):
        node.turn(way)
        assert any_stage.audit(holding, 20).outcome is Outcome.TIMED_OUT


def test_who_denies_the_inventory_is_timed_out_in_the_end(stage: Stage) -> None:
    node, url = stage.node()
    holding = stage.holding(node, url, stage.content(40))
    assert stage.audit(holding, 20).outcome is Outcome.PASSED

    def deny(_node: Turncoat, _holding: Kept, _question: ProofQuestion) -> Answer:
        raise NodeRefusedError(Code.INVENTORY, "never heard of it")

    node.turn(deny)
    result = stage.audit(holding, 20)
    assert result.outcome is Outcome.TIMED_OUT
    assert "never heard of it" in result.reason
