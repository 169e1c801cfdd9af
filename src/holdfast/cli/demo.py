"""`holdfast demo`: a file is tagged, audited, damaged, found out, searched and healed."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from holdfast.cli import terminal
from holdfast.cli.terminal import Json
from holdfast.errors import InputError
from holdfast.model.detection import detection_probability
from holdfast.pdp import (
    FileEntry,
    Inventory,
    Location,
    Prover,
    SecretKey,
    StoredFile,
    TagFile,
    draw_challenge,
    locate,
    tag_file,
    target_of,
    verify_in_public,
    verify_with_key,
)
from holdfast.pdp.journal import TagJournal
from holdfast.pdp.keys import FILE_ID_BYTES

DAMAGED_BLOCKS = 7
RATIOS = (0.01, 0.05, 0.20, 1.0)


def demo(
    size_mib: Annotated[
        int, typer.Option("--size", min=1, max=1 << 16, help="Size of the file, in MiB.")
    ] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Which file, and where it is damaged.")] = 0,
    keep: Annotated[
        Path | None, typer.Option(help="Keep the files in this new folder.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> int:
    """See the audit at work: tag a file, damage it behind the owner's back, find out what is lost.

    Example: holdfast demo --size 256
    """
    console = Console(stderr=as_json, highlight=False)
    with _folder(keep) as folder:
        story = Story(folder, np.random.default_rng(seed), console)
        story.tag(size_mib << 20)
        story.audit_intact()
        story.damage()
        story.audit_until_found()
        found_all = story.locate()
        healed = story.heal()
    if as_json:
        terminal.print_json(story.facts)
    return 0 if found_all and healed else 1


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
            yield Path(folder)
        return
    try:
        keep.mkdir(parents=True)
    except FileExistsError as error:
        raise InputError(f"{keep} exists already: name a new folder") from error
    yield keep


@dataclass
class Story:
    """One owner, one node, one file; each chapter prints what happened and what it cost."""

    folder: Path
    random: np.random.Generator
    console: Console
    facts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.key = SecretKey.generate()
        self.file = self.folder / "archive.bin"
        self.tags = self.folder / "archive.bin.tags"
        self.backup = self.folder / "replica.bin"
        self.damaged: list[int] = []
        self.inventory = Inventory(self.key.public.id, self.key.sectors)

    def tag(self, size: int) -> None:
        self._title("The owner tags a file and hands it, with its tags, to a node")
        with self.file.open("wb") as file:
            for start in range(0, size, 1 << 20):
                file.write(self.random.bytes(min(1 << 20, size - start)))
        shutil.copyfile(self.file, self.backup)
        file_id = self.random.bytes(FILE_ID_BYTES)
        begun = time.perf_counter()
        with terminal.progress_bar("tagging", size) as bar:
            header = tag_file(
                Location(str(self.file)),
                self.key,
                file_id=file_id,
                version=1,
                out=self.tags,
                journal=TagJournal(self.folder / "owner.journal"),
                progress=bar.reach,
            )
        seconds = time.perf_counter() - begun
        self.inventory = self.inventory.with_file(FileEntry(file_id, 1, header.blocks))
        overhead = header.file_bytes / size
        self._say(
            f"{size >> 20} MiB in {header.blocks:,} blocks of {self.key.layout.block_bytes} bytes, "
            f"tagged in {seconds:.2f} s; the tags take {overhead:.1%} more storage"
        )
        self.facts |= {
            "bytes": size,
            "blocks": header.blocks,
            "tag_overhead": overhead,
            "tag_seconds": seconds,
        }

    def audit_intact(self) -> None:
        self._title("An audit of 460 blocks, as the node is honest")
        fact = self._audit(460, damaged=round(0.01 * self.inventory.blocks))
        self._say(
            f"the node read {fact['bytes_read']:,} bytes and answered with "
            f"{fact['proof_bytes']:,}, {fact['seconds'] * 1e3:.0f} ms in all; had 1 % been lost, "
            f"it would have been found with probability {fact['detection_probability']:.3f}"
        )
        self.facts["honest_audit"] = fact

    def damage(self) -> None:
        self._title("Behind the owner's back, the node loses a few blocks")
        chosen = self.random.choice(self.inventory.blocks - 1, DAMAGED_BLOCKS, replace=False)
        self.damaged = sorted(chosen.tolist())
        size = self.key.layout.block_bytes
        with self.file.open("r+b") as file:
            for block in self.damaged:
                file.seek(block * size)
                file.write(bytes(size))
        self._say(f"blocks {', '.join(f'{block:,}' for block in self.damaged)} are zeros now")
        self.facts["damaged"] = self.damaged

    def audit_until_found(self) -> None:
        self._title("Audits, ever harder, until one fails")
        audits = []
        for ratio in RATIOS:
            fact = self._audit(max(1, int(ratio * self.inventory.blocks)), DAMAGED_BLOCKS)
            fact["ratio"] = ratio
            audits.append(fact)
            if not fact["passed"]:
                break
        self.facts["audits"] = audits

    def locate(self) -> bool:
        self._title("Which blocks? Challenges over halves of what failed")
        begun = time.perf_counter()
        blocks = self.inventory.blocks
        with (
            self._prover() as prover,
            terminal.progress_bar("locating", blocks, of_bytes=False) as bar,
        ):
            damage = locate(
                self.key, self.inventory, prover.prove, progress=lambda done, _: bar.reach(done)
            )
        seconds = time.perf_counter() - begun
        found_all = list(damage.blocks) == self.damaged
        self._say(
            f"{len(damage.blocks)} damaged blocks found with {damage.proofs} proofs in "
            f"{seconds:.2f} s: {'just those that were lost' if found_all else 'NOT those lost'}"
        )
        self.facts["located"] = {
            "blocks": list(damage.blocks),
            "proofs": damage.proofs,
            "seconds": seconds,
            "all_and_only": found_all,
        }
        return found_all

    def heal(self) -> bool:
        self._title("Repaired from a replica, audited once more, every block")
        size = self.key.layout.block_bytes
        with self.backup.open("rb") as good, self.file.open("r+b") as file:
            for block in self.facts["located"]["blocks"]:
                good.seek(block * size)
                file.seek(block * size)
                file.write(good.read(size))
        fact = self._audit(self.inventory.blocks, damaged=1)
        self.facts["healed"] = fact
        return bool(fact["passed"])

    def _audit(self, samples: int, damaged: int) -> dict[str, Any]:
        begun = time.perf_counter()
        challenge = draw_challenge(self.inventory, samples)
        target = target_of(self.key, self.inventory, challenge)
        with self._prover() as prover:
            proof = prover.prove(challenge)
        passed = verify_with_key(self.key, self.inventory, challenge, proof)
        in_public = verify_in_public(self.key.public, target, challenge, proof)
        seconds = time.perf_counter() - begun
        chance = float(
            detection_probability(
                min(damaged, self.inventory.blocks), samples, self.inventory.blocks
            )
        )
        verdict = "[green]passed[/]" if passed and in_public else "[red bold]FAILED[/]"
        self._say(
            f"{samples:>7,} blocks sampled: {verdict}, with the owner's key and in public alike "
            f"[dim](chance to notice {damaged:,} damaged blocks: {chance:.1%})[/]"
        )
        return {
            "samples": samples,
            "passed": passed,
            "passed_in_public": in_public,
            "detection_probability": chance,
            "bytes_read": samples * self.key.layout.block_bytes,
            "proof_bytes": len(proof.encode()),
            "seconds": seconds,
        }

    @contextmanager
    def _prover(self) -> Iterator[Prover]:
        with Location(str(self.file)).open() as data, Location(str(self.tags)).open() as tags:
            (entry,) = self.inventory.files
            yield Prover(self.inventory, {entry.file_id: StoredFile(data, TagFile(tags))})

    def _title(self, text: str) -> None:
        self.console.print(f"\n[bold]{text}[/]")

    def _say(self, text: str) -> None:
        self.console.print(f"  {text}", soft_wrap=True)
