"""`holdfast ledger`: an account, the audit contract on a chain, and what it tells."""

from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast import atomic
from holdfast.cli import terminal
from holdfast.cli.terminal import Json, say
from holdfast.errors import InputError
from holdfast.ledger import artefact, local, record
from holdfast.ledger.interface import Receipt, owner_of
from holdfast.owner.ledgers import KEYSTORE_VARIABLE
from holdfast.pdp import encoding
from holdfast.pdp.field import DEFAULT_SECTORS

ADDRESS_BYTES = 20
GWEI = 10**9

app = typer.Typer(
    no_args_is_help=True, help="The audit contract: an account for it, deploy it, show its events."
)

Chain = Annotated[str, typer.Option(help="Address of a node of the chain, https://...")]
Confirmations = Annotated[
    int, typer.Option(min=1, help="Blocks after which a transaction counts, its own among them.")
]
PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        help=f"File with the keystore's passphrase; else {KEYSTORE_VARIABLE}, else a prompt.",
        show_default=False,
    ),
]


@app.command()
def keygen(
    out: Annotated[Path, typer.Option(help="Where its keystore (version 3) goes.")],
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Make an account that pays for transactions, and show its address, which needs funds.

    Example: holdfast ledger keygen --out account.json
    """
    _check_installed()
    from holdfast.ledger.transactions import new_account  # noqa: PLC0415 - an extra

    atomic.check_output(out, overwrite=False)
    secret = terminal.passphrase(passphrase_file, variable=KEYSTORE_VARIABLE, confirm=True)
    account = new_account(out, secret)
    if as_json:
        terminal.print_json({"keystore": str(out), "address": account.address})
    else:
        say(f"wrote {out} (keep it, and its passphrase)")
        say(f"address: {account.address} (send it what transactions cost)")


@app.command()
def deploy(
    chain: Chain,
    keystore: Annotated[Path, typer.Option(help="Keystore (version 3) of the account that pays.")],
    sectors: Annotated[
        int, typer.Option(help="Sectors a block of the holdings that it serves.")
    ] = DEFAULT_SECTORS,
    passphrase_file: PassphraseFile = None,
    journal: Annotated[
        Path | None,
        typer.Option(
            help="Where the transaction is written down before it is sent; else beside the "
            "keystore. Run again after a crash, the command takes it up.",
            show_default=False,
        ),
    ] = None,
    fee_cap: Annotated[int, typer.Option(min=1, help="Most to pay a unit of gas, in gwei.")] = 200,
    confirmations: Confirmations = 1,
    as_json: Json = False,
) -> None:
    """Put the audit contract on a chain.

    Example: holdfast ledger deploy --chain https://rpc.example --keystore payer.json --sectors 16
    """
    artefact.load(sectors)
    _check_installed()
    from holdfast.ledger import evm, transactions  # noqa: PLC0415 - an extra
    from holdfast.ledger.journal import Journal  # noqa: PLC0415

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
    if as_json:
        terminal.print_json(facts)
    else:
        say(f"the contract for {sectors} sectors a block is at {facts['contract']}, since {since}")


@app.command()
def show(
    chain: Annotated[
        str | None, typer.Option(help="Address of a node of the chain.", show_default=False)
    ] = None,
    contract: Annotated[
        str | None, typer.Option(help="The contract's address.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="A local ledger instead of a chain.", show_default=False)
    ] = None,
    since: Annotated[int, typer.Option(min=0, help="The first block to look at.")] = 0,
    confirmations: Confirmations = 1,
    as_json: Json = False,
) -> None:
    """Show what a ledger tells, from a block on. It takes no account.

    Example: holdfast ledger show --chain https://rpc.example --contract 0x5FbD... --since 7000000
    or: holdfast ledger show --file ledger-16.db
    """
    if file is not None and (chain, contract) == (None, None):
        receipts = local.history(file, since)
    elif chain is not None and contract is not None and file is None:
        receipts = _of_chain(chain, contract, since, confirmations)
    else:
        raise InputError("give either --chain and --contract, or --file")
    rows = [row for receipt in receipts for row in _rows(receipt)]
    if as_json:
        terminal.print_json({"events": rows})
        return
    for row in rows:
        say("  ".join(f"{name} {value}" for name, value in row.items() if name != "words"))
    say(f"{len(rows)} events since block {since}")


def _of_chain(url: str, contract: str, since: int, confirmations: int) -> list[Receipt]:
    address = encoding.unhex(contract.removeprefix("0x").lower(), ADDRESS_BYTES, "--contract")
    _check_installed()
    from holdfast.ledger import evm, transactions  # noqa: PLC0415 - an extra

    web3 = transactions.connect(url)
    sectors = evm.recognise(web3, address)
    return evm.history(evm.contract_at(web3, address, sectors), since, confirmations)


def _rows(receipt: Receipt) -> list[dict[str, Any]]:
    rows = []
    for event in receipt.events:
        row = {"block": receipt.block, **record.row(event)}
        if "holding" in row:
            row["owner"] = owner_of(row["holding"]).hex()
            row["holding"] = f"{row['holding']:064x}"  # beyond what JSON's readers count to
        rows.append(row | {"transaction": receipt.transaction.hex()})
    return rows


def _check_installed() -> None:
    try:
        import web3  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        raise InputError("a chain needs more libraries: pip install 'holdfast[evm]'") from error
