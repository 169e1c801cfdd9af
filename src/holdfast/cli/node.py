"""`holdfast node`: make a storage node's key, and serve."""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from holdfast import atomic
from holdfast.cli import terminal
from holdfast.cli.terminal import Json, PassphraseFile, say
from holdfast.errors import InputError
from holdfast.ledger import local
from holdfast.pdp import PublicKey, encoding

ADDRESS_BYTES = 20

app = typer.Typer(no_args_is_help=True, help="A storage node: keeps files and proves that it does.")


@app.command()
def keygen(
    out: Annotated[Path, typer.Option(help="Where the encrypted key goes.")],
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Make the key by which a node signs its answers, and show the address owners pin.

    Example: holdfast node keygen --out node.key
    """
    from holdfast.node.identity import NodeKey, write_node_key  # noqa: PLC0415 - as in `serve`

    atomic.check_output(out, overwrite=False)
    key = NodeKey.generate()
    write_node_key(out, key, terminal.passphrase(passphrase_file, confirm=True))
    if as_json:
        terminal.print_json({"key": str(out), "address": key.address.hex()})
    else:
        say(f"wrote {out} (keep it, and its passphrase)")
        say(f"address: {key.address.hex()} (owners pin it)")


@app.command()
def serve(
    store: Annotated[str, typer.Option(help="A folder, or an address such as s3://bucket/prefix.")],
    key: Annotated[Path, typer.Option(help="The node's key file.")],
    owner: Annotated[
        list[str],
        typer.Option(help="An owner to serve: its file, or its key in hexadecimal. Repeatable."),
    ],
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free one.")] = 8470,
    data: Annotated[
        str | None,
        typer.Option(help="Storage that is read only, whose files may be kept in place."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="For TLS: the certificate, in PEM.", show_default=False)
    ] = None,
    private_key: Annotated[
        Path | None, typer.Option(help="For TLS: its private key, in PEM.", show_default=False)
    ] = None,
    quota_gib: Annotated[
        float | None, typer.Option(min=0, help="What each owner may store.", show_default=False)
    ] = None,
    sample_cap: Annotated[int, typer.Option(min=1, help="Blocks of one proof.")] = 1_000_000,
    proofs_at_once: Annotated[int, typer.Option(min=1, help="One more is told to wait.")] = 2,
    segments_at_once: Annotated[
        int, typer.Option(min=1, help="Received at the same time, 16 MiB of memory each.")
    ] = 8,
    ledger: Annotated[
        Path | None,
        typer.Option(help="A local ledger: holdings must be registered there.", show_default=False),
    ] = None,
    chain: Annotated[
        str | None,
        typer.Option(help="The same on a chain, by a node of it.", show_default=False),
    ] = None,
    contract: Annotated[
        str | None, typer.Option(help="The contract on that chain.", show_default=False)
    ] = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Example: holdfast node serve --store /srv/holdfast --key node.key --owner alice.owner
    """
    # FastAPI and what else serves would slow the start of every command.
    from holdfast.node.identity import read_node_key, read_owner  # noqa: PLC0415
    from holdfast.node.node import Node  # noqa: PLC0415
    from holdfast.node.objects import open_objects  # noqa: PLC0415
    from holdfast.node.serving import Certificate, RunningNode  # noqa: PLC0415
    from holdfast.node.signature import Gate  # noqa: PLC0415
    from holdfast.node.store import Store  # noqa: PLC0415
    from holdfast.node.wire import Limits  # noqa: PLC0415

    if (certificate is None) != (private_key is None):
        raise InputError("TLS needs both --certificate and --private-key")
    register = _register(ledger, chain, contract)
    tls = Certificate(certificate, private_key) if certificate and private_key else None
    owners = {known.hex(): known for known in map(read_owner, owner)}
    limits = Limits(
        quota_bytes=None if quota_gib is None else int(quota_gib * 2**30),
        samples=sample_cap,
        proofs_at_once=proofs_at_once,
        segments_at_once=segments_at_once,
    )
    node_key = read_node_key(key, terminal.passphrase(passphrase_file))
    others = None if data is None else open_objects(data)
    if others is not None:
        others.check()
    kept = Store(open_objects(store), owners.values(), limits, time.time, data=others)
    try:
        gate = Gate(node_key.address, owners, time.time)
        served = RunningNode(Node(node_key, kept, gate, register), host, port, tls)
        time.sleep(max(0.0, gate.opens - time.time()))
        if as_json:
            say(json.dumps({"url": served.url, "address": node_key.address.hex()}))
            terminal.flush()
        terminal.messages.print(
            f"holdfast node {node_key.address.hex()} listens on {served.url}", soft_wrap=True
        )
        served.run()
    finally:
        kept.close()


def _register(
    file: Path | None, chain: str | None, contract: str | None
) -> Callable[[int], PublicKey] | None:
    """Return how the node looks up the key of a holding, if it is to."""
    if file is not None and (chain, contract) == (None, None):
        return partial(local.registered_key, file)
    if chain is not None and contract is not None and file is None:
        place = encoding.unhex(contract.removeprefix("0x").lower(), ADDRESS_BYTES, "--contract")
        try:
            from holdfast.ledger import evm, transactions  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise InputError("--chain needs more libraries: install holdfast[evm]") from error
        web3 = transactions.connect(chain)
        sectors = evm.recognise(web3, place)
        return partial(evm.registered_key, evm.contract_at(web3, place, sectors), sectors)
    if (file, chain, contract) != (None, None, None):
        raise InputError("give either --ledger, or --chain and --contract")
    return None
