"""Transactions that arrive once: signed, written down, broadcast, watched until they are final."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from eth_account import Account
from eth_account.signers.local import LocalAccount
from web3 import HTTPProvider, Web3
from web3.exceptions import TransactionNotFound, Web3RPCError, Web3ValueError
from web3.middleware import ExtraDataToPOAMiddleware
from web3.types import RPCEndpoint, RPCResponse, TxParams, TxReceipt

from holdfast import atomic
from holdfast.errors import InputError, LedgerError, PassphraseError
from holdfast.ledger.journal import Attempt, Intent, Journal

MAX_KEYSTORE_BYTES = 1 << 16
GWEI = 10**9
_JUDGED_BY_US = ("eth_call", "eth_sendRawTransaction")  # their errors have meanings of their own


@dataclass(frozen=True)
class Terms:
    """How much a transaction may cost and how long it is waited for."""

    fee_cap: int = 200 * GWEI  # wei a unit of gas, at most
    tip: int = GWEI
    confirmations: int = 1  # blocks, the transaction's own among them
    poll: float = 1.0  # seconds
    patience: int = 30  # polls before a transaction counts as stuck
    give_up: int = 600  # polls
    gas: int | None = None  # the limit; None asks the node, which an EVM in Python answers slowly


def read_account(path: Path, passphrase: bytes) -> LocalAccount:
    """Return the account in a keystore file of version 3."""
    content = atomic.read(path, at_most=MAX_KEYSTORE_BYTES)
    try:
        key = Account.decrypt(content.decode(), passphrase)  # type: ignore[arg-type] # bytes are fine
    except ValueError as error:
        if "MAC mismatch" in str(error):
            raise PassphraseError(f"the passphrase does not open {path}") from None
        raise InputError(f"{path} is not a keystore file of version 3") from None
    except (AttributeError, KeyError, TypeError, NotImplementedError):
        raise InputError(f"{path} is not a keystore file of version 3") from None
    account: LocalAccount = Account.from_key(key)
    return account


def new_account(path: Path, passphrase: bytes) -> LocalAccount:
    """Make an account and write its keystore, which is never put in another's place."""
    account: LocalAccount = Account.create()
    sealed = Account.encrypt(account.key, passphrase)  # type: ignore[arg-type] # bytes are fine
    atomic.write(path, json.dumps(sealed).encode(), mode=0o600, overwrite=False)
    return account


class NotTakenError(LedgerError):
    """The node refused a transaction outright, for want of funds say: nobody else has it."""


class OvertakenError(LedgerError):
    """Something that the journal does not know of was sent from the account."""


class Node(HTTPProvider):
    """A chain's node over HTTP, whose failures are ours to explain."""

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        # An address may have a secret in its path: only the host's name is shown.
        where = urlsplit(str(self.endpoint_uri)).netloc.rpartition("@")[2]
        try:
            response: Any = super().make_request(method, params)
        except OSError:
            raise LedgerError(f"the chain's node at {where} can't be reached") from None
        except ValueError:
            raise LedgerError(f"what answers at {where} is no node of a chain") from None
        if not isinstance(response, dict) or not {"result", "error"} & set(response):
            raise LedgerError(f"what answers at {where} is no node of a chain")
        if "error" in response and method not in _JUDGED_BY_US:
            raise LedgerError(f"the chain's node at {where} refused {method}: {response['error']}")
        return cast("RPCResponse", response)


def connect(url: str) -> Web3:
    """Return the chain behind an address of HTTP."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InputError("a chain is named by the address of its node: http://... or https://...")
    web3 = Web3(Node(url))
    # Chains that agree by authority have longer heads of blocks than Ethereum.
    web3.middleware_onion.inject(ExtraDataToPOAMiddleware, layer=0)
    return web3


class Sender:
    """Sends the transactions of one account."""

    def __init__(
        self,
        web3: Web3,
        account: LocalAccount,
        journal: Journal,
        terms: Terms,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.web3, self.account, self.journal, self.terms = web3, account, journal, terms
        self._pause = pause
        self._chain = web3.eth.chain_id

    @property
    def address(self) -> bytes:
        return bytes.fromhex(self.account.address[2:])

    def resume(self, contract: bytes, data: bytes) -> TxReceipt | None:
        """Conclude this very call if it is under way: made again, it must not happen twice."""
        for intent in self.journal.pending():
            if (intent.contract, intent.data) == (contract, data):
                return self._take_up(intent)
        return None

    def send(self, contract: bytes, data: bytes, gas: int) -> TxReceipt:
        """Carry out a call; return its receipt when it is final."""
        nonce = self.web3.eth.get_transaction_count(self.account.address, "pending")
        if self.journal.reopen(nonce):  # a reorganisation undid them, and this one would wait
            self.reconcile()
        fee = self._market_fee()
        intent, attempt = self.journal.intend(
            contract, data, gas, nonce, lambda intent: self._sign(intent, fee, self.terms.tip)
        )
        try:
            self._broadcast(attempt)
        except NotTakenError:
            self.journal.abandon(intent)
            raise
        return self._conclude(intent)

    def reconcile(self) -> list[TxReceipt]:
        """Conclude what a crash left under way: broadcast it again, or find that it arrived.

        A call that something else overtook is reported once, when the rest is concluded.
        """
        self.journal.reopen(self._count())
        receipts: list[TxReceipt] = []
        overtaken: list[OvertakenError] = []
        for intent in self.journal.pending():
            try:
                receipts.append(self._take_up(intent))
            except OvertakenError as error:
                overtaken.append(error)
        if overtaken:
            raise overtaken[0]
        return receipts

    def _take_up(self, intent: Intent) -> TxReceipt:
        if self._receipt(intent) is None and not self._overtaken(intent):
            self._broadcast(self.journal.attempts(intent)[-1])
        return self._conclude(intent)

    def _conclude(self, intent: Intent) -> TxReceipt:
        waited = taken = 0
        for _ in range(self.terms.give_up):
            receipt = self._receipt(intent)
            if receipt is not None:
                self.journal.seen(intent, bytes(receipt["blockHash"]))
                depth = self.web3.eth.block_number - receipt["blockNumber"] + 1
                if depth >= self.terms.confirmations:
                    self.journal.finish(intent)
                    return receipt
            elif self.journal.seen(intent, None):
                self._broadcast(self.journal.attempts(intent)[-1])
            elif self._overtaken(intent):
                taken += 1  # perhaps by this one: a node may count it before it finds its receipt
                if taken > self.terms.patience:
                    self.journal.finish(intent)
                    raise OvertakenError(
                        f"another transaction took the nonce {intent.nonce}: "
                        "does something else send from this account?"
                    )
            elif waited >= self.terms.patience:
                self._wake_earlier(intent)
                self._replace(intent)
                waited = 0
            waited += 1
            self._pause(self.terms.poll)
        raise LedgerError(
            f"the transaction with nonce {intent.nonce} is not final yet: it stays in the journal "
            "and is taken up again at the next start"
        )

    def _receipt(self, intent: Intent) -> TxReceipt | None:
        for attempt in self.journal.attempts(intent):
            try:
                return self.web3.eth.get_transaction_receipt(attempt.hash)  # type: ignore[arg-type]
            except TransactionNotFound:
                continue
        return None

    def _overtaken(self, intent: Intent) -> bool:
        """Return whether the chain has a transaction of that nonce, this one or another."""
        return self._count() > intent.nonce

    def _count(self) -> int:
        return self.web3.eth.get_transaction_count(self.account.address)

    def _wake_earlier(self, intent: Intent) -> None:
        """Broadcast what this one waits for, which a crash may have kept from being broadcast."""
        for earlier in self.journal.pending():
            if earlier.nonce < intent.nonce:
                self._broadcast(self.journal.attempts(earlier)[-1])

    def _replace(self, intent: Intent) -> None:
        """Offer an eighth more than before: nodes ask for a tenth, of the fee and of the tip."""
        last = self.journal.attempts(intent)[-1]
        fee = min(self.terms.fee_cap, max(self._market_fee(), last.fee + last.fee // 8 + 1))
        if 10 * fee >= 11 * last.fee:
            attempt = self._sign(intent, fee, last.tip + last.tip // 8 + 1)
            self.journal.again(intent, attempt)
            self._broadcast(attempt)

    def _market_fee(self) -> int:
        base = self.web3.eth.get_block("latest").get("baseFeePerGas")
        if base is None:
            raise LedgerError("the chain has no base fee: Holdfast needs the rules of London")
        return min(self.terms.fee_cap, 2 * base + self.terms.tip)

    def _sign(self, intent: Intent, fee: int, tip: int) -> Attempt:
        tip = min(fee, tip)
        transaction: TxParams = {
            "chainId": self._chain,
            "nonce": intent.nonce,  # type: ignore[typeddict-item]
            "data": intent.data,
            "gas": intent.gas,
            "value": 0,  # type: ignore[typeddict-item]
            "maxFeePerGas": fee,  # type: ignore[typeddict-item]
            "maxPriorityFeePerGas": tip,  # type: ignore[typeddict-item]
        }
        if intent.contract:
            transaction["to"] = Web3.to_checksum_address(intent.contract)
        signed = self.account.sign_transaction(transaction)  # type: ignore[arg-type]
        return Attempt(bytes(signed.hash), fee, tip, bytes(signed.raw_transaction))

    def _broadcast(self, attempt: Attempt) -> None:
        """Hand the transaction to the node, which may know it, or its successor, already."""
        try:
            self.web3.eth.send_raw_transaction(attempt.raw)
        except (Web3RPCError, Web3ValueError) as error:
            known = ("known", "nonce", "underpriced", "imported")
            if not any(word in str(error).lower() for word in known):
                raise NotTakenError(f"the node did not take a transaction: {error}") from error
