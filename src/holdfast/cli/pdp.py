"""`holdfast pdp`: tag files, challenge, prove, verify, and locate damage."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast import atomic
from holdfast.cli import terminal
from holdfast.cli.pdp_files import (
    check_outputs,
    lock_key,
    open_prover,
    read_challenge,
    read_inventory,
    read_message,
    tagged_version,
    tags_path,
)
from holdfast.cli.sampling import (
    Confidence,
    DamageShare,
    Ratio,
    SampleCount,
    damaged_blocks,
    sample_count,
)
from holdfast.cli.terminal import Json, PassphraseFile, report
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
        "--tags-dir", help="Where the tags are. Default: beside each file.", show_default=False
    ),
]
DEFAULT_INVENTORY = Path("holding.inventory")


def keygen(
    out: Annotated[
        Path, typer.Option(help="Where to write the encrypted key. The public key gets .pub.")
    ],
    sectors: Annotated[
        int, typer.Option(help="Sectors of 31 bytes per block. A block's tag takes 32 bytes.")
    ] = DEFAULT_SECTORS,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Make a key pair: an encrypted secret key, a public key.

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
    sentence = f"wrote {out} (keep it and its passphrase) and {public_path} (share it)"
    report(facts, sentence, as_json=as_json)


def tag(
    files: Files,
    key: KeyFile,
    inventory: InventoryFile = DEFAULT_INVENTORY,
    tags_dir: TagsDirectory = None,
    processes: Annotated[
        int | None,
        typer.Option(
            help="Processes to tag with. Default: one per core, one for files below 256 MiB."
        ),
    ] = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Tag files and enter them into the holding's inventory.

    A file that was tagged before gets a new version. Each version has its own nonce.

    Example: holdfast pdp tag --key owner.key photos.tar
    """
    sizes = {}
    for name in files:
        with Location(name).open() as reader:
            sizes[name] = reader.size()
    outputs = {name: tags_path(name, tags_dir) for name in sizes}
    check_outputs([inventory, *outputs.values()], [key, *map(Path, files)])
    secret = read_key(key, terminal.passphrase(passphrase_file))
    facts = []
    with lock_key(key):
        holding = read_inventory(inventory) if inventory.exists() else None
        holding = holding or Inventory(secret.public.id, secret.sectors)
        if holding.key_id != secret.public.id:
            raise InputError(f"{inventory} belongs to another key: name a new --inventory")
        journal = TagJournal.beside(key)
        for name, out in outputs.items():
            file_id, seen = tagged_version(out, secret)
            entry = holding.entry(file_id)
            # If one of the three is lost, the others still prevent a version from being used twice.
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
            facts.append(_tag_facts(name, out, header))
    data = {"inventory_hash": holding.hash.hex(), "files": facts}
    report(data, map(_describe_tags, facts), as_json=as_json)


def _describe_tags(file: dict[str, Any]) -> str:
    overhead = file["tag_bytes"] / max(1, file["bytes"])
    return (
        f"{file['file']}: {file['bytes']} bytes in {file['blocks']} blocks, tags in "
        f"{file['tags']} ({overhead:.1%} more storage), version {file['version']} of file "
        f"{file['file_id']}"
    )


def challenge(
    out: Annotated[Path, typer.Option(help="Where to write the challenge.")],
    inventory: InventoryFile = DEFAULT_INVENTORY,
    samples: SampleCount = None,
    ratio: Ratio = None,
    confidence: Confidence = 0.99,
    damage: DamageShare = 0.01,
    target: Annotated[
        Path | None,
        typer.Option(
            help="Where to write the public target, for public verification. Needs --key."
        ),
    ] = None,
    key: Annotated[Path | None, typer.Option("--key", help="The owner's key file.")] = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Draw a new challenge over the whole holding.

    Example: holdfast pdp challenge --samples 460 --out challenge.json
    """
    check_outputs([out], [inventory, key, passphrase_file, target], kind="challenge")
    check_outputs([target], [inventory, key, passphrase_file, out], kind="target")
    holding = read_inventory(inventory)
    if holding.blocks == 0:
        raise InputError(f"{inventory} is empty: tag a file first")
    damaged = damaged_blocks(damage, holding.blocks)
    count = sample_count(holding.blocks, samples, ratio, confidence, damaged)
    made = draw_challenge(holding, count)
    if target is not None:
        if key is None:
            raise InputError("--target needs --key: only the owner can compute it")
        secret = read_key(key, terminal.passphrase(passphrase_file))
        published = target_of(secret, holding, made)
        atomic.write(target, published.encode())
    atomic.write(out, made.encode())
    chance = float(detection_probability(damaged, count, holding.blocks))
    facts = {
        "challenge": str(out),
        "challenge_id": made.id.hex(),
        "blocks": holding.blocks,
        "samples": count,
        "damage": damaged / holding.blocks,
        "detection_probability": chance,
    }
    sentence = (
        f"{count} of {holding.blocks} blocks; if {damaged} of them are damaged, this detects it "
        f"with probability {chance:.4f}"
    )
    report(facts, sentence, as_json=as_json)


def prove(
    challenge_file: Annotated[Path, typer.Argument(metavar="CHALLENGE")],
    files: Files,
    out: Annotated[Path, typer.Option(help="Where to write the proof.")],
    inventory: InventoryFile = DEFAULT_INVENTORY,
    tags_dir: TagsDirectory = None,
    as_json: Json = False,
) -> None:
    """Answer a challenge from the files and tags, without a key.

    Example: holdfast pdp prove challenge.json photos.tar --out proof.json
    """
    check_outputs([out], [challenge_file, inventory, *map(Path, files)], kind="proof")
    challenged = read_challenge(challenge_file)
    with open_prover(read_inventory(inventory), files, tags_dir) as node:
        proof = node.prove(challenged)
    encoded = proof.encode()
    atomic.write(out, encoded)
    data = {
        "proof": str(out),
        "challenge_id": challenged.id.hex(),
        "samples": challenged.samples,
        "proof_bytes": len(encoded),
    }
    sentence = f"wrote {out}: one proof for {challenged.samples} blocks, {len(encoded)} bytes"
    report(data, sentence, as_json=as_json)


def verify(
    challenge_file: Annotated[Path, typer.Argument(metavar="CHALLENGE")],
    proof_file: Annotated[Path, typer.Argument(metavar="PROOF")],
    key: Annotated[Path | None, typer.Option("--key", help="Verify with the owner's key.")] = None,
    inventory: InventoryFile = DEFAULT_INVENTORY,
    public: Annotated[
        Path | None, typer.Option(help="Verify publicly, with this public key and --target.")
    ] = None,
    target: Annotated[Path | None, typer.Option(help="The challenge's public target.")] = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> int:
    """Check a proof: exit 0 if it passes, 1 if it fails.

    Example: holdfast pdp verify challenge.json proof.json --key owner.key
    or: holdfast pdp verify challenge.json proof.json --public owner.pub --target target.json
    """
    challenged = read_challenge(challenge_file)
    proof = Proof.decode(read_message(proof_file), str(proof_file))
    if key is not None and public is None:
        secret = read_key(key, terminal.passphrase(passphrase_file))
        form = "with the key"
        passed = verify_with_key(secret, read_inventory(inventory), challenged, proof)
    elif public is not None and key is None and target is not None:
        form = "in public"
        passed = verify_in_public(
            PublicKey.decode(read_message(public), str(public)),
            Target.decode(read_message(target), str(target)),
            challenged,
            proof,
        )
    else:
        raise InputError("give either --key, or --public and --target")
    verdict = (
        f"passed, checked {form}: all {challenged.samples:,} sampled blocks are intact"
        if passed
        else f"FAILED, checked {form}: the node doesn't have what was tagged"
    )
    data = {"passed": passed, "form": form, "challenge_id": challenged.id.hex()}
    report(data, verdict, as_json=as_json)
    return 0 if passed else 1


def locate_damage(
    files: Files,
    key: KeyFile,
    inventory: InventoryFile = DEFAULT_INVENTORY,
    tags_dir: TagsDirectory = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> int:
    """Find the damaged blocks: exit 1 if there are any.

    Challenges that fail are split until single blocks are left.

    Example: holdfast pdp locate photos.tar --key owner.key
    """
    secret = read_key(key, terminal.passphrase(passphrase_file))
    holding = read_inventory(inventory)
    if holding.blocks == 0:
        raise InputError(f"{inventory} is empty: tag a file first")
    with (
        open_prover(holding, files, tags_dir) as node,
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
    data = {
        "damaged": places,
        "inconsistent": [list(blocks) for blocks in damage.inconsistent],
        "proofs": damage.proofs,
    }
    report(data, _describe_damage(data, holding.blocks), as_json=as_json)
    return 1 if places or damage.inconsistent else 0


def _describe_damage(data: dict[str, Any], blocks: int) -> Iterator[str]:
    for place in data["damaged"]:
        last = place["offset"] + place["length"] - 1
        yield (
            f"{place['file']}: block {place['block']} is damaged "
            f"(bytes {place['offset']} to {last})"
        )
    for start, stop in data["inconsistent"]:
        yield f"blocks {start} to {stop - 1} of the holding failed once and then passed"
    count = len(data["damaged"]) or "no"
    yield f"{count} damaged of {blocks} blocks, located with {data['proofs']} proofs"


def forget(
    file_ids: Annotated[
        list[str], typer.Argument(metavar="FILE_ID...", help="As `tag` shows them.")
    ],
    key: KeyFile,
    inventory: InventoryFile = DEFAULT_INVENTORY,
    as_json: Json = False,
) -> None:
    """Remove files from the inventory: they aren't audited.

    Example: holdfast pdp forget cbad915329bf943374d742a26cb10b80 --key owner.key
    """
    with lock_key(key):
        holding = read_inventory(inventory)
        for file_id in file_ids:
            name = f"file id {file_id!r}"
            holding = holding.without_file(encoding.unhex(file_id, FILE_ID_BYTES, name))
        atomic.write(inventory, holding.encode())
    data = {"inventory_hash": holding.hash.hex(), "files": len(holding.files)}
    sentence = f"{inventory} has {len(holding.files)} files and {holding.blocks} blocks now"
    report(data, sentence, as_json=as_json)


def _tag_facts(name: str, tags: Path, header: TagHeader) -> dict[str, Any]:
    return {
        "file": name,
        "tags": str(tags),
        "file_id": header.file_id.hex(),
        "version": header.version,
        "bytes": header.length,
        "blocks": header.blocks,
        "tag_bytes": header.file_bytes,
    }
