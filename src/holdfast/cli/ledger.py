"""`holdfast ledger`: an account, the audit contract on a chain, and its events."""

from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast import atomic
from holdfast.cli import terminal
from holdfast.cli.terminal import Json, report
from holdfast.errors import InputError
from holdfast.ledger import artefact, local_reader, record
from holdfast.ledger.interface import Receipt, owner_of
from holdfast.ledger.journal import Journal
from holdfast.owner.ledgers import KEYSTORE_VARIABLE
from holdfast.pdp import encoding
from holdfast.pdp.field import DEFAULT_SECTORS

ADDRESS_BYTES = 20
GWEI = 10**9

Chain = Annotated[str, typer.Option(help="URL of a node of the chain, https://...")]
Confirmations = Annotated[
    int, typer.Option(min=1, help="Blocks until a transaction counts, including its own.")
]
PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        help=f"File with the keystore's passphrase. Default: {KEYSTORE_VARIABLE}, or a prompt.",
        show_default=False,
    ),
]


def keygen(
    out: Annotated[Path, typer.Option(help="Where to write its keystore (version 3).")],
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Make an account that pays for transactions.

    It prints the address, to which you send the funds.

    Example: holdfast ledger keygen --out account.json
    """
    _check_installed()
    from holdfast.ledger.transactions import new_account  # noqa: PLC0415 - the extra `evm`

    atomic.check_output(out, overwrite=False)
    secret = terminal.passphrase(passphrase_file, variable=KEYSTORE_VARIABLE, confirm=True)
    account = new_account(out, secret)
    text = (
        f"wrote {out} (keep it and its passphrase)",
        f"address: {account.address} (send funds for transactions to it)",
    )
    report({"keystore": str(out), "address": account.address}, text, as_json=as_json)


def deploy(
    chain: Chain,
    keystore: Annotated[Path, typer.Option(help="Keystore (version 3) of the account that pays.")],
    sectors: Annotated[
        int, typer.Option(help="Sectors per block of the holdings that it serves.")
    ] = DEFAULT_SECTORS,
    passphrase_file: PassphraseFile = None,
    journal: Annotated[
        Path | None,
        typer.Option(
            help="Where to save the transaction before it is sent, so that the command can "
            "resume after a crash. Default: beside the keystore.",
            show_default=False,
        ),
    ] = None,
    fee_cap: Annotated[
        int, typer.Option(min=1, help="Maximum price of a unit of gas, in gwei.")
    ] = 200,
    confirmations: Confirmations = 1,
    as_json: Json = False,
) -> None:
    """Deploy the audit contract on a chain.

    Example: holdfast ledger deploy --chain https://rpc.example --keystore payer.json --sectors 16
    """
    artefact.load(sectors)
    _check_installed()
    from holdfast.ledger import evm, transactions  # noqa: PLC0415 - the extra `evm`

    web3 = transactions.connect(chain)
    secret = terminal.passphrase(passphrase_file, variable=KEYSTORE_VARIABLE)
    account = transactions.read_account(keystore, secret)
    since = web3.eth.block_number
    address = bytes.fromhex(account.address[2:])
    path = journal or keystore.with_name(f"{keystore.name}.transactions")
    written = Journal.in_file(path, web3.eth.chain_id, address)
    try:
        terms = transactions.Terms(fee_cap=fee_cap * GWEI, confirmations=confirmations)
        sender = transactions.Sender(web3, account, written, terms)
        contract = evm.deploy(sender, sectors)
    finally:
        written.close()
    facts = {
        "contract": web3.to_checksum_address(contract),
        "chain": web3.eth.chain_id,
        "sectors": sectors,
        "since": since,
    }
    place = f"{facts['contract']}, from block {since}"
    report(facts, f"the contract for {sectors} sectors per block is at {place}", as_json=as_json)


def show(
    chain: Annotated[
        str | None, typer.Option(help="URL of a node of the chain.", show_default=False)
    ] = None,
    contract: Annotated[
        str | None, typer.Option(help="The contract's address.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="A local ledger instead of a chain.", show_default=False)
    ] = None,
    since: Annotated[int, typer.Option(min=0, help="The first block to read.")] = 0,
    confirmations: Confirmations = 1,
    as_json: Json = False,
) -> None:
    """List the events of a ledger, without an account.

    Example: holdfast ledger show --chain https://rpc.example --contract 0x5FbD... --since 7000000
    or: holdfast ledger show --file ledger-16.db
    """
    if file is not None and (chain, contract) == (None, None):
        receipts = local_reader.history(file, since)
    elif chain is not None and contract is not None and file is None:
        receipts = _chain_receipts(chain, contract, since, confirmations)
    else:
        raise InputError("give either --chain and --contract, or --file")
    rows = [row for receipt in receipts for row in _rows(receipt)]
    lines = [
        "  ".join(f"{name} {value}" for name, value in row.items() if name != "words")
        for row in rows
    ]
    report({"events": rows}, [*lines, f"{len(rows)} events since block {since}"], as_json=as_json)


def _chain_receipts(url: str, contract: str, since: int, confirmations: int) -> list[Receipt]:
    address = encoding.unhex(contract.removeprefix("0x").lower(), ADDRESS_BYTES, "--contract")
    _check_installed()
    from holdfast.ledger import evm, transactions  # noqa: PLC0415 - the extra `evm`

    web3 = transactions.connect(url)
    sectors = evm.recognise(web3, address)
    return evm.history(evm.contract_at(web3, address, sectors), since, confirmations)


def _rows(receipt: Receipt) -> list[dict[str, Any]]:
    rows = []
    for event in receipt.events:
        row = {"block": receipt.block, **record.row(event)}
        if "holding" in row:
            row["owner"] = owner_of(row["holding"]).hex()
            row["holding"] = f"{row['holding']:064x}"  # too large for the numbers of JSON readers
        rows.append(row | {"transaction": receipt.transaction.hex()})
    return rows


def _check_installed() -> None:
    try:
        import web3  # noqa: F401, PLC0415 - the extra `evm`
    except ImportError as error:
        raise InputError("a chain needs more libraries: pip install 'holdfast[evm]'") from error
