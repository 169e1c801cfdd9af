"""`holdfast node`: a storage node's key, and the node itself."""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from holdfast import atomic
from holdfast.cli import terminal
from holdfast.cli.terminal import Json, PassphraseFile, report, say
from holdfast.errors import InputError
from holdfast.ledger import local_reader
from holdfast.node.identity import NodeKey, read_node_key, read_owner, write_node_key
from holdfast.node.node import Node
from holdfast.node.objects import open_objects
from holdfast.node.serving import Certificate, RunningNode
from holdfast.node.signature import Gate
from holdfast.node.store import Store
from holdfast.node.wire import Limits
from holdfast.pdp import PublicKey, encoding

ADDRESS_BYTES = 20


def keygen(
    out: Annotated[Path, typer.Option(help="Where to write the encrypted key.")],
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Make a node's signing key and print its address.

    Owners pin the address.

    Example: holdfast node keygen --out node.key
    """
    atomic.check_output(out, overwrite=False)
    key = NodeKey.generate()
    write_node_key(out, key, terminal.passphrase(passphrase_file, confirm=True))
    text = (
        f"wrote {out} (keep it and its passphrase)",
        f"address: {key.address.hex()} (owners pin it)",
    )
    report({"key": str(out), "address": key.address.hex()}, text, as_json=as_json)


def serve(
    store: Annotated[str, typer.Option(help="A folder, or an address such as s3://bucket/prefix.")],
    key: Annotated[Path, typer.Option(help="The node's key file.")],
    owner: Annotated[
        list[str],
        typer.Option(help="An owner to serve: a file, or a key in hexadecimal. Repeatable."),
    ],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on. 0 picks a free one.")
    ] = 8470,
    data: Annotated[
        str | None,
        typer.Option(help="Read-only storage whose files can be stored in place."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="For TLS: the certificate, in PEM.", show_default=False)
    ] = None,
    private_key: Annotated[
        Path | None, typer.Option(help="For TLS: its private key, in PEM.", show_default=False)
    ] = None,
    quota_gib: Annotated[
        float | None, typer.Option(min=0, help="GiB that each owner may store.", show_default=False)
    ] = None,
    sample_cap: Annotated[
        int, typer.Option(min=1, help="Maximum number of blocks in a proof.")
    ] = 1_000_000,
    proofs_at_once: Annotated[
        int, typer.Option(min=1, help="Proofs at the same time. Further requests must wait.")
    ] = 2,
    segments_at_once: Annotated[
        int, typer.Option(min=1, help="Uploads at the same time, 4 MiB of memory each.")
    ] = 8,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="A local ledger, on which holdings must be registered.", show_default=False
        ),
    ] = None,
    chain: Annotated[
        str | None,
        typer.Option(help="The same on a chain: URL of one of its nodes.", show_default=False),
    ] = None,
    contract: Annotated[
        str | None, typer.Option(help="The contract's address on that chain.", show_default=False)
    ] = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Run a storage node until SIGTERM or Ctrl-C.

    Example: holdfast node serve --store /srv/holdfast --key node.key --owner owner.pub
    """
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
    stored = Store(open_objects(store), owners.values(), limits, time.time, data=others)
    try:
        gate = Gate(node_key.address, owners, time.time)
        running = RunningNode(Node(node_key, stored, gate, register), host, port, tls)
        time.sleep(max(0.0, gate.opens - time.time()))
        if as_json:
            say(json.dumps({"url": running.url, "address": node_key.address.hex()}))
            terminal.flush()
        terminal.messages.print(
            f"holdfast node {node_key.address.hex()} listens on {running.url}", soft_wrap=True
        )
        running.run()
    finally:
        stored.close()


def _register(
    file: Path | None, chain: str | None, contract: str | None
) -> Callable[[int], PublicKey] | None:
    """Return how the node looks up the registered key of a holding, if it shall."""
    if file is not None and (chain, contract) == (None, None):
        return partial(local_reader.registered_key, file)
    if chain is not None and contract is not None and file is None:
        place = encoding.unhex(contract.removeprefix("0x").lower(), ADDRESS_BYTES, "--contract")
        try:
            from holdfast.ledger import evm, transactions  # noqa: PLC0415 - the extra `evm`
        except ImportError as error:
            raise InputError("--chain needs more libraries: install holdfast[evm]") from error
        web3 = transactions.connect(chain)
        sectors = evm.recognise(web3, place)
        return partial(evm.registered_key, evm.contract_at(web3, place, sectors), sectors)
    if (file, chain, contract) != (None, None, None):
        raise InputError("give either --ledger, or --chain and --contract")
    return None
