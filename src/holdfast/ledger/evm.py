"""The audit contract on a chain, through web3: over HTTP, or on an EVM in this process."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from typing import Any

from eth_typing import BlockNumber, HexStr
from web3 import Web3
from web3.contract.contract import Contract, ContractFunction
from web3.types import BlockIdentifier, EventData, TxParams, TxReceipt

from holdfast.errors import InputError, LedgerError
from holdfast.ledger import artefact, check
from holdfast.ledger.interface import (
    EVENTS,
    Answer,
    Batch,
    Domain,
    Entry,
    Event,
    LedgerRefusedError,
    Reason,
    Receipt,
    check_owner,
    check_whole,
    check_words,
    holding_id,
    max_answers,
)
from holdfast.ledger.signing import SIGNATURE_BYTES
from holdfast.ledger.transactions import Sender
from holdfast.pdp import Challenge, Proof, PublicKey
from holdfast.pdp.field import SCALAR_BYTES

QUIET_SECONDS = 10.0  # without another answer, after which those that came are settled
LOG_BLOCKS = 10_000  # of events per request; public nodes refuse more
NODE_BITS = 160  # of the slot that has a node's address; a serial is above them
DEADLINE_BITS = 64  # of a challenge's slot; its target is above them
GAS_MARGIN = 1.1  # refunds come at the end: a transaction needs more than it costs
_NO_SIGNATURE = (0, 0, 0)
_REVERTED = re.compile(r"execution reverted: (\w+)")


class EvmLedger:
    """One account's view of a deployed contract."""

    def __init__(self, sender: Sender, contract: bytes, *, sectors: int) -> None:
        self._sender, self.sectors = sender, sectors
        self.sender = sender.address
        self._web3 = sender.web3
        self.domain = Domain(self._web3.eth.chain_id, contract)
        self._contract = contract_at(self._web3, contract, sectors)
        if not self._web3.eth.get_code(self._contract.address):
            raise InputError(f"there is no contract at {self._contract.address} on this chain")

    @property
    def quiet_seconds(self) -> float:
        return QUIET_SECONDS

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def gas_price(self) -> int:
        return int(self._web3.eth.gas_price)

    def register(self, public: PublicKey, node: bytes) -> Receipt:
        if public.sectors != self.sectors:
            raise LedgerRefusedError(Reason.MALFORMED)
        points = [int.from_bytes(x, "big") for x in public.abscissas]
        return self._send("register", Web3.to_checksum_address(node), points)

    def key(self, holding: int) -> PublicKey:
        return registered_key(self._contract, self.sectors, holding)

    def newest_serial(self, number: int) -> int:
        holding = holding_id(self.sender, number)
        return int(self._contract.functions.nodes(holding).call()) >> NODE_BITS

    def open(self, number: int, challenge: Challenge, target: bytes, deadline: int) -> Receipt:
        check_whole(challenge)
        return self._send(
            "open",
            number,
            challenge.seed,
            challenge.inventory_hash,
            challenge.blocks,
            challenge.samples,
            Web3.to_checksum_address(target),
            deadline,
        )

    def open_many(self, batch: Batch) -> Receipt:
        check_owner(batch, self.sender)
        return self._send("open_many", batch.seed, batch.deadline, list(batch.words))

    def submit(self, holding: int, challenge: bytes, answer: Answer) -> Receipt:
        proof = self._proof(holding, self._target(holding, challenge), answer.proof)
        return self._send("submit", holding, challenge, proof, _signature(answer))

    def settle(self, batch: Batch, answers: Mapping[int, Answer]) -> Receipt:
        part = batch.part(list(answers), max_answers(self.sectors))
        rows = []
        for index, answer in answers.items():
            target = Entry.decode(batch.words[index]).target
            proof = self._proof(batch.holding(index), target, answer.proof)
            rows.append((index - part.start, proof))
        signed = any(answer.signature for answer in answers.values())
        signatures = [_signature(answer) for answer in answers.values() if signed]
        where = (part.start, part.words, part.path)
        return self._send("settle", _head(batch), where, rows, signatures)

    def expire(self, holding: int, challenge: bytes) -> Receipt:
        return self._send("expire", holding, challenge)

    def expire_many(self, batch: Batch, indices: Sequence[int]) -> Receipt:
        part = batch.part(indices)
        offsets = [index - part.start for index in indices]
        return self._send("expire_many", _head(batch), (part.start, part.words, part.path), offsets)

    def anchor(self, root: bytes, size: int) -> Receipt:
        return self._send("anchor", root, size)

    def receipts(self, since: int = 0) -> list[Receipt]:
        return history(self._contract, since, self._sender.terms.confirmations)

    def reconcile(self) -> list[Receipt]:
        """Conclude what a crash left under way, and what a reorganisation has undone."""
        return [self._read(receipt) for receipt in self._sender.reconcile()]

    def height(self) -> int:
        return self._web3.eth.block_number

    def reorganisations(self) -> int:
        return self._sender.journal.reorganisations()

    def _target(self, holding: int, challenge: bytes) -> bytes:
        """Return the target of an open challenge, of which the contract keeps the state."""
        state = int(self._contract.functions.challenges(holding, challenge).call())
        return (state >> DEADLINE_BITS).to_bytes(20, "big")

    def _proof(self, holding: int, target: bytes, proof: Proof) -> tuple[Any, ...]:
        """Return the proof as the contract takes it; hints need the key and the target."""
        check_words(proof, self.sectors)
        if self.sectors == 1:
            return (proof.sigma, list(proof.mu))
        try:
            points, inverse = check.hints(self.key(holding), target, proof)
        except LedgerRefusedError:  # no such holding: the contract may have more to say
            points, inverse = [(0, 0)] * self.sectors, 0
        return (proof.sigma, list(proof.mu), points, inverse)

    def _send(self, name: str, *arguments: Any) -> Receipt:
        call = self._contract.functions[name](*arguments)
        terms: TxParams = {"from": self._sender.account.address}
        data = bytes.fromhex(self._contract.encode_abi(name, list(arguments))[2:])
        receipt = self._sender.resume(self.domain.contract, data)
        if receipt is None:
            self._rehearse(call, terms, "pending")
            gas = self._sender.terms.gas or int(GAS_MARGIN * call.estimate_gas(terms))
            receipt = self._sender.send(self.domain.contract, data, gas)
        if receipt["status"] == 0:
            self._rehearse(call, terms, receipt["blockNumber"])
            raise LedgerError(f"the call {name} was refused on the chain, but not when repeated")
        return self._read(receipt)

    def _rehearse(self, call: ContractFunction, terms: TxParams, block: BlockIdentifier) -> None:
        """Run the call without effect, so that a refusal costs nothing and has its reason."""
        try:
            call.call(terms, block_identifier=block)
        except LedgerError:
            raise
        except Exception as error:
            # The EVM in this process raises an error of its own, which users need not install.
            match = _REVERTED.search(str(error))
            if match is None or match[1] not in list(Reason):
                raise LedgerError(f"the chain did not run {call.fn_name}: {error}") from error
            raise LedgerRefusedError(Reason(match[1])) from error

    def _read(self, receipt: TxReceipt) -> Receipt:
        events = tuple(_events(self._contract, receipt["logs"]))
        name = bytes(receipt["transactionHash"])
        return Receipt(name, receipt["blockNumber"], receipt["gasUsed"], events)


def contract_at(web3: Web3, address: bytes, sectors: int) -> Contract:
    return web3.eth.contract(
        address=Web3.to_checksum_address(address), abi=artefact.load(sectors).abi
    )


def registered_key(contract: Contract, sectors: int, holding: int) -> PublicKey:
    """Return the key under which the contract knows a holding."""
    word = int(contract.functions.keys(holding).call())
    if word == 0:
        raise LedgerRefusedError(Reason.UNKNOWN)
    stored = word.to_bytes(SCALAR_BYTES, "big")
    if sectors > 1:
        stored = bytes(contract.w3.eth.get_code(Web3.to_checksum_address(stored[12:])))[1:]
    points = (stored[at : at + SCALAR_BYTES] for at in range(0, len(stored), SCALAR_BYTES))
    return PublicKey(tuple(points))


def history(contract: Contract, since: int, confirmations: int) -> list[Receipt]:
    """Return what happened from that block on, as far as it is final. No account is needed."""
    final = contract.w3.eth.block_number - confirmations + 1
    calls: dict[tuple[int, bytes], list[Event]] = {}
    for first in range(since, final + 1, LOG_BLOCKS):
        last = min(final, first + LOG_BLOCKS - 1)
        for log in contract.w3.eth.get_logs(
            {
                "address": contract.address,
                "fromBlock": BlockNumber(first),
                "toBlock": BlockNumber(last),
            }
        ):
            where = (log["blockNumber"], bytes(log["transactionHash"]))
            calls.setdefault(where, []).extend(_events(contract, [log]))
    return [Receipt(name, block, 0, tuple(events)) for (block, name), events in calls.items()]


def recognise(web3: Web3, contract: bytes) -> int:
    """Return the contract's sectors per block; refuse code that doesn't ship with this version."""
    address = Web3.to_checksum_address(contract)
    code = hashlib.sha256(web3.eth.get_code(address)).hexdigest()
    for sectors in artefact.SECTORS:
        if code == artefact.load(sectors).code_sha256:
            return sectors
    raise InputError(f"there is no audit contract of this version at {address} on this chain")


def deploy(sender: Sender, sectors: int, compiled: artefact.Artefact | None = None) -> bytes:
    """Put the contract on the chain and return its address."""
    compiled = compiled or artefact.load(sectors)
    factory = sender.web3.eth.contract(abi=compiled.abi, bytecode=compiled.bytecode)
    creation = factory.constructor()
    data = bytes.fromhex(creation.data_in_transaction[2:])
    receipt = sender.resume(b"", data)
    if receipt is None:
        terms: TxParams = {"from": sender.account.address}
        gas = sender.terms.gas or int(GAS_MARGIN * creation.estimate_gas(terms))
        receipt = sender.send(b"", data, gas)
    if receipt["status"] == 0 or receipt["contractAddress"] is None:
        raise LedgerError("the contract could not be put on the chain")
    return bytes.fromhex(receipt["contractAddress"][2:])


def _head(batch: Batch) -> tuple[str, bytes, int]:
    return Web3.to_checksum_address(batch.owner), batch.seed, batch.deadline


def _signature(answer: Answer) -> tuple[int, int, int]:
    if answer.signature is None or len(answer.signature) != SIGNATURE_BYTES:
        return _NO_SIGNATURE
    r, s = (int.from_bytes(answer.signature[at : at + 32], "big") for at in (0, 32))
    return 27 + answer.signature[64], r, s


def _events(contract: Contract, logs: Sequence[Any]) -> list[Event]:
    known = [contract.events[name]() for name in EVENTS]
    by_topic = {event.topic: event for event in known}
    return [_event(by_topic[_hex(log["topics"][0])].process_log(log)) for log in logs]


def _event(log: EventData) -> Event:
    kind = EVENTS[log["event"]]
    return kind(**{field.name: _value(log["args"][field.name]) for field in fields(kind)})


def _hex(topic: bytes) -> HexStr:
    return HexStr(f"0x{topic.hex().removeprefix('0x')}")


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return bytes.fromhex(value[2:])
    if isinstance(value, (list, tuple)):
        return tuple(map(bytes, value))
    return bytes(value) if isinstance(value, bytes) else value
