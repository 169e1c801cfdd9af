"""`holdfast pdp`: tag a file, challenge it, prove and verify it, and find what is damaged."""

from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast import atomic
from holdfast.cli import terminal
from holdfast.cli.holding import (
    check_outputs,
    last_tagged,
    locked,
    prover,
    read_challenge,
    read_inventory,
    read_message,
    tags_of,
)
from holdfast.cli.sampling import (
    Confidence,
    DamageShare,
    Ratio,
    SampleCount,
    damaged_blocks,
    sample_count,
)
from holdfast.cli.terminal import Json, PassphraseFile, say
from holdfast.errors import InputError
from holdfast.model.detection import detection_probability
from holdfast.pdp import (
    Inventory,
    Location,
    Proof,
    PublicKey,
    SecretKey,
    TagHeader,
    Target,
    draw_challenge,
    encoding,
    locate,
    read_key,
    tag_file,
    target_of,
    verify_in_public,
    verify_with_key,
    write_key,
)
from holdfast.pdp.field import DEFAULT_SECTORS
from holdfast.pdp.journal import TagJournal
from holdfast.pdp.keys import FILE_ID_BYTES

app = typer.Typer(no_args_is_help=True, help="The audit primitive: tag, challenge, prove, verify.")

KeyFile = Annotated[Path, typer.Option("--key", help="The owner's key file.")]
InventoryFile = Annotated[
    Path, typer.Option("--inventory", help="The holding's inventory: which files, in which order.")
]
Files = Annotated[
    list[str],
    typer.Argument(metavar="FILE...", help="Files, or addresses such as s3://bucket/key."),
]
TagsDirectory = Annotated[
    Path | None,
    typer.Option(
        "--tags-dir", help="Where the tags lie; else beside each file.", show_default=False
    ),
]
DEFAULT_INVENTORY = Path("holding.inventory")


@app.command()
def keygen(
    out: Annotated[Path, typer.Option(help="Where the encrypted key goes; .pub lies beside it.")],
    sectors: Annotated[
        int, typer.Option(help="Sectors of 31 bytes in a block: tags take 32 bytes a block.")
    ] = DEFAULT_SECTORS,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Make a key pair: the owner's secret key, encrypted, and the public key.

    Example: holdfast pdp keygen --out owner.key
    """
    atomic.check_output(out, overwrite=False)
    public_path = out.with_suffix(".pub")
    if public_path == out:
        raise InputError(f"{out} is the name of the public key: choose another ending")
    atomic.check_output(public_path, overwrite=False)
    key = SecretKey.generate(sectors)
    write_key(out, key, terminal.passphrase(passphrase_file, confirm=True))
    atomic.write(public_path, key.public.encode(), overwrite=False)
    facts = {
        "key": str(out),
        "public_key": str(public_path),
        "key_id": key.public.id.hex(),
        "sectors": sectors,
        "block_bytes": key.layout.block_bytes,
    }
    if as_json:
        terminal.print_json(facts)
    else:
        say(f"wrote {out} (keep it, and its passphrase) and {public_path} (give it away)")


@app.command()
def tag(
    files: Files,
    key: KeyFile,
    inventory: InventoryFile = DEFAULT_INVENTORY,
    tags_dir: TagsDirectory = None,
    processes: Annotated[
        int | None,
        typer.Option(help="Processes to tag with; else one a core, one for files below 256 MiB."),
    ] = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Tag files and enter them into the holding's inventory.

    A file that has been tagged before gets a new version. Every tagging draws a nonce of its own.

    Example: holdfast pdp tag --key owner.key photos.tar
    """
    sizes = {}
    for name in files:
        with Location(name).open() as reader:
            sizes[name] = reader.size()
    outputs = {name: tags_of(name, tags_dir) for name in sizes}
    check_outputs([inventory, *outputs.values()], [key, *map(Path, files)])
    secret = read_key(key, terminal.passphrase(passphrase_file))
    facts = []
    with locked(key):
        holding = read_inventory(inventory) if inventory.exists() else None
        holding = holding or Inventory(secret.public.id, secret.sectors)
        if holding.key_id != secret.public.id:
            raise InputError(f"{inventory} belongs to another key: name a new --inventory")
        journal = TagJournal.beside(key)
        for name, out in outputs.items():
            file_id, seen = last_tagged(out, secret)
            entry = holding.entry(file_id)
            # If one of the three is lost, the others keep the version number from being used twice.
            seen = max(seen, journal.latest_version(file_id), entry.version if entry else 0)
            version = seen + 1
            atomic.sweep(out)
            with terminal.progress_bar(f"tagging {name}", sizes[name]) as bar:
                header = tag_file(
                    Location(name),
                    secret,
                    file_id=file_id,
                    version=version,
                    out=out,
                    journal=journal,
                    processes=processes,
                    progress=bar.reach,
                )
            holding = holding.with_file(header.entry)
            atomic.write(inventory, holding.encode())
            facts.append(_facts_of(name, out, header))
    if as_json:
        terminal.print_json({"inventory_hash": holding.hash.hex(), "files": facts})
        return
    for fact in facts:
        overhead = fact["tag_bytes"] / max(1, fact["bytes"])
        say(
            f"{fact['file']}: {fact['bytes']} bytes in {fact['blocks']} blocks, tags in "
            f"{fact['tags']} ({overhead:.1%} more storage), version {fact['version']} of file "
            f"{fact['file_id']}"
        )


@app.command()
def challenge(
    out: Annotated[Path, typer.Option(help="Where the challenge goes.")],
    inventory: InventoryFile = DEFAULT_INVENTORY,
    samples: SampleCount = None,
    ratio: Ratio = None,
    confidence: Confidence = 0.99,
    damage: DamageShare = 0.01,
    target: Annotated[
        Path | None,
        typer.Option(
            help="Where the public target goes, with which anyone can verify; needs --key."
        ),
    ] = None,
    key: Annotated[Path | None, typer.Option("--key", help="The owner's key file.")] = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Draw a fresh challenge over the whole holding.

    Example: holdfast pdp challenge --samples 460 --out challenge.json
    """
    check_outputs([out], [inventory, key, passphrase_file, target], kind="challenge")
    check_outputs([target], [inventory, key, passphrase_file, out], kind="target")
    holding = read_inventory(inventory)
    if holding.blocks == 0:
        raise InputError(f"{inventory} is empty: tag a file first")
    damaged = damaged_blocks(damage, holding.blocks)
    count = sample_count(holding.blocks, samples, ratio, confidence, damaged)
    drawn = draw_challenge(holding, count)
    if target is not None:
        if key is None:
            raise InputError("--target needs --key: only the owner can compute it")
        secret = read_key(key, terminal.passphrase(passphrase_file))
        published = target_of(secret, holding, drawn)
        atomic.write(target, published.encode())
    atomic.write(out, drawn.encode())
    finds = float(detection_probability(damaged, count, holding.blocks))
    facts = {
        "challenge": str(out),
        "challenge_id": drawn.id.hex(),
        "blocks": holding.blocks,
        "samples": count,
        "damage": damaged / holding.blocks,
        "detection_probability": finds,
    }
    if as_json:
        terminal.print_json(facts)
    else:
        say(
            f"{count} of {holding.blocks} blocks; if {damaged} of them are damaged, this finds it "
            f"with probability {finds:.4f}"
        )


@app.command()
def prove(
    challenge_file: Annotated[Path, typer.Argument(metavar="CHALLENGE")],
    files: Files,
    out: Annotated[Path, typer.Option(help="Where the proof goes.")],
    inventory: InventoryFile = DEFAULT_INVENTORY,
    tags_dir: TagsDirectory = None,
    as_json: Json = False,
) -> None:
    """Answer a challenge from the stored files and their tags. Needs no key.

    Example: holdfast pdp prove challenge.json photos.tar --out proof.json
    """
    check_outputs([out], [challenge_file, inventory, *map(Path, files)], kind="proof")
    asked = read_challenge(challenge_file)
    with prover(read_inventory(inventory), files, tags_dir) as node:
        proof = node.prove(asked)
    encoded = proof.encode()
    atomic.write(out, encoded)
    if as_json:
        facts = {"proof": str(out), "challenge_id": asked.id.hex(), "samples": asked.samples}
        terminal.print_json({**facts, "proof_bytes": len(encoded)})
    else:
        say(f"wrote {out}: one proof for {asked.samples} blocks, {len(encoded)} bytes")


@app.command()
def verify(
    challenge_file: Annotated[Path, typer.Argument(metavar="CHALLENGE")],
    proof_file: Annotated[Path, typer.Argument(metavar="PROOF")],
    key: Annotated[Path | None, typer.Option("--key", help="Verify with the owner's key.")] = None,
    inventory: InventoryFile = DEFAULT_INVENTORY,
    public: Annotated[
        Path | None, typer.Option(help="Verify in public, with this public key and --target.")
    ] = None,
    target: Annotated[Path | None, typer.Option(help="The challenge's public target.")] = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> int:
    """Check a proof: exit 0 if it passes, 1 if it fails.

    Example: holdfast pdp verify challenge.json proof.json --key owner.key
    or: holdfast pdp verify challenge.json proof.json --public owner.pub --target target.json
    """
    asked = read_challenge(challenge_file)
    proof = Proof.decode(read_message(proof_file), str(proof_file))
    if key is not None and public is None:
        secret = read_key(key, terminal.passphrase(passphrase_file))
        form = "with the key"
        passed = verify_with_key(secret, read_inventory(inventory), asked, proof)
    elif public is not None and key is None and target is not None:
        form = "in public"
        passed = verify_in_public(
            PublicKey.decode(read_message(public), str(public)),
            Target.decode(read_message(target), str(target)),
            asked,
            proof,
        )
    else:
        raise InputError("give either --key, or --public and --target")
    if as_json:
        terminal.print_json({"passed": passed, "form": form, "challenge_id": asked.id.hex()})
    elif passed:
        say(f"passed, checked {form}: the {asked.samples} sampled blocks are intact")
    else:
        say(f"FAILED, checked {form}: the node does not hold what was tagged")
    return 0 if passed else 1


@app.command(name="locate")
def locate_command(
    files: Files,
    key: KeyFile,
    inventory: InventoryFile = DEFAULT_INVENTORY,
    tags_dir: TagsDirectory = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> int:
    """Find which blocks are damaged, by splitting challenges: exit 1 if any is.

    Example: holdfast pdp locate photos.tar --key owner.key
    """
    secret = read_key(key, terminal.passphrase(passphrase_file))
    holding = read_inventory(inventory)
    if holding.blocks == 0:
        raise InputError(f"{inventory} is empty: tag a file first")
    with (
        prover(holding, files, tags_dir) as node,
        terminal.progress_bar("locating", holding.blocks, of_bytes=False) as bar,
    ):
        damage = locate(
            secret, holding, node.prove, on_progress=lambda settled, _proofs: bar.reach(settled)
        )
        names = {file_id: stored.data.name for file_id, stored in node.files.items()}
    size = secret.layout.block_bytes
    places: list[dict[str, Any]] = []
    for index in damage.blocks:
        entry, local = holding.place(index)
        places.append(
            {
                "file": names[entry.file_id],
                "file_id": entry.file_id.hex(),
                "block": local,
                "offset": local * size,
                "length": size,
            }
        )
    if as_json:
        terminal.print_json(
            {
                "damaged": places,
                "inconsistent": [list(span) for span in damage.inconsistent],
                "proofs": damage.proofs,
            }
        )
    else:
        for place in places:
            say(
                f"{place['file']}: block {place['block']} is damaged "
                f"(bytes {place['offset']} to {place['offset'] + size - 1})"
            )
        for start, stop in damage.inconsistent:
            say(f"blocks {start} to {stop - 1} of the holding failed once and then passed")
        found = len(places) or "no"
        say(f"{found} damaged of {holding.blocks} blocks, found with {damage.proofs} proofs")
    return 1 if places or damage.inconsistent else 0


@app.command()
def forget(
    file_ids: Annotated[
        list[str], typer.Argument(metavar="FILE_ID...", help="As `tag` shows them.")
    ],
    key: KeyFile,
    inventory: InventoryFile = DEFAULT_INVENTORY,
    as_json: Json = False,
) -> None:
    """Take files out of the holding's inventory: they are no longer audited.

    Example: holdfast pdp forget cbad915329bf943374d742a26cb10b80 --key owner.key
    """
    with locked(key):
        holding = read_inventory(inventory)
        for file_id in file_ids:
            name = f"file id {file_id!r}"
            holding = holding.without_file(encoding.unhex(file_id, FILE_ID_BYTES, name))
        atomic.write(inventory, holding.encode())
    if as_json:
        terminal.print_json({"inventory_hash": holding.hash.hex(), "files": len(holding.files)})
    else:
        say(f"{inventory} has {len(holding.files)} files and {holding.blocks} blocks now")


def _facts_of(name: str, tags: Path, header: TagHeader) -> dict[str, Any]:
    return {
        "file": name,
        "tags": str(tags),
        "file_id": header.file_id.hex(),
        "version": header.version,
        "bytes": header.length,
        "blocks": header.blocks,
        "tag_bytes": header.file_bytes,
    }
