"""The audit of a direct holding: a listing, a proof, and a second look at what fails.

A proof that fails is signed only if an object can be named that is lost, damaged or changed. An
object that is gone fails the audit even if no block of it is in the sample: the proof is void then.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from holdfast.errors import UnreachableError
from holdfast.node.daemon_pool import DaemonPool
from holdfast.node.holding import Holding
from holdfast.node.time_limit import seconds_left, within
from holdfast.owner.direct.differences import (
    Changed,
    Differences,
    compare,
    count_objects,
    describe_names,
    name_of,
)
from holdfast.owner.direct.examination import Examination
from holdfast.owner.direct.storage import DirectStorage
from holdfast.pdp import Challenge, Proof, SecretKey, expect

LISTING_SHARE = 0.5  # of the time
MAX_CONFIRMED = 16  # objects whose absence is checked one by one
WHOLE_BYTES = 64 << 20  # of objects that were written again, and are read whole in one audit
SAMPLED_BLOCKS = 460  # of a larger one


@dataclass
class Findings:
    """What is wrong with a holding, by object, and what is worth a remark."""

    gone: list[str] = field(default_factory=list)
    resized: list[str] = field(default_factory=list)
    rewritten: list[str] = field(default_factory=list)  # written again, with other content
    damaged: list[str] = field(default_factory=list)  # other content, though nothing was written
    new: int = 0
    remarks: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [*self.gone, *self.resized, *self.rewritten, *self.damaged]

    def describe(self) -> str:
        """Return what is wrong in words that name no object: others read the evidence."""
        sentences = [
            f"{count_objects(len(names))} {'is' if len(names) == 1 else 'are'} {what}"
            for names, what in self._kinds()
            if names
        ]
        if self.resized or self.rewritten:
            sentences.append("if that was you, `holdfast holding accept` takes them as they are")
        if self.new:
            verb = "is" if self.new == 1 else "are"
            sentences.append(
                f"{self.new:,} new {verb} not audited until `holdfast holding refresh` enrols them"
            )
        return "; ".join(sentences + self.remarks)

    def describe_objects(self) -> tuple[str, ...]:
        """Return the objects that are lost, damaged or changed, by name, for the owner."""
        return tuple(f"{what}: {describe_names(names)}" for names, what in self._kinds() if names)

    def _kinds(self) -> tuple[tuple[list[str], str], ...]:
        return (
            (self.gone, "gone"),
            (self.resized, "of another length"),
            (self.rewritten, "written again with other content"),
            (self.damaged, "damaged"),
        )


class DirectAudit:
    """Answers challenges to one direct holding, as it is recorded now."""

    def __init__(
        self,
        holding: Holding,
        storage: DirectStorage,
        stamps: dict[str, str],
        key: SecretKey,
    ) -> None:
        """Make an audit; it notes in `stamps` which rewritten objects still have their content."""
        self._holding, self._storage, self._stamps, self._key = holding, storage, stamps, key
        self._examination = Examination(holding, key)
        self._pool = DaemonPool(storage.files_at_once)

    def answer(self, challenge: Challenge) -> tuple[Proof, Findings]:
        """Return a proof, and what is wrong with the holding if the proof fails."""
        findings = Findings()
        differences = self._list(findings)
        if differences is not None:
            self._examine(differences, findings)
        expectation = expect(self._key, self._holding.record.inventory, challenge)
        proof = self._prove(challenge, certain=differences is not None)
        if not expectation.passes(proof):
            self._look_again(challenge, findings)
            if not findings.names:
                proof = self._prove(challenge, certain=differences is not None)
                if not expectation.passes(proof):
                    raise UnreachableError(
                        f"{self._storage.address} gives other bytes each time it is read"
                    )
                findings.remarks.append("a first reading gave other bytes")
        elif findings.names:
            proof = Proof(challenge.id, 1, (0,) * self._key.sectors)
        return proof, findings

    def _list(self, findings: Findings) -> Differences | None:
        """Compare the listing with the record; None if it can't be had, which is remarked."""
        try:
            with within(LISTING_SHARE * seconds_left()):
                listed = self._storage.walk()
        except UnreachableError as error:
            if seconds_left() <= 0:
                raise
            findings.remarks.append(f"new and vanished objects go unnoticed: {error}")
            return None
        return compare(self._holding.record, self._stamps, listed)

    def _examine(self, differences: Differences, findings: Findings) -> None:
        vanished = [name_of(file) for file in differences.vanished]
        checked = vanished[:MAX_CONFIRMED]
        present = {
            name
            for name, gone in zip(
                checked, self._pool.map(self._storage.confirm_gone, checked), strict=True
            )
            if not gone
        }
        findings.gone += [name for name in vanished if name not in present]
        findings.new = len(differences.new)
        findings.resized += [
            name_of(changed.file) for changed in differences.changed if changed.resized
        ]
        rewritten = [changed for changed in differences.changed if not changed.resized]
        self._compare_content(rewritten, findings)

    def _compare_content(self, rewritten: Sequence[Changed], findings: Findings) -> None:
        """Find out which objects that were written again have other content.

        Small ones are read whole. Of others a sample is read, at every audit, until they are
        accepted.
        """
        budget, jobs = WHOLE_BYTES, []
        for changed in rewritten:
            blocks = self._examination.blocks_of(changed.file)
            whole = changed.file.length <= budget
            budget -= changed.file.length if whole else 0
            count = blocks if whole else min(SAMPLED_BLOCKS, blocks)
            jobs.append((changed, count, count == blocks))

        def count_wrong(job: tuple[Changed, int, bool]) -> int:
            changed, count, _ = job
            blocks = self._examination.blocks_of(changed.file)
            drawn = sorted(random.SystemRandom().sample(range(blocks), count))
            return self._examination.wrong_blocks(changed.file, np.array(drawn, np.int64))

        sampled = 0
        for (changed, _, whole), wrong in zip(jobs, self._pool.map(count_wrong, jobs), strict=True):
            if wrong:
                findings.rewritten.append(name_of(changed.file))
            elif whole:
                self._stamps[name_of(changed.file)] = changed.now.stamp
            else:
                sampled += 1
        if sampled:
            findings.remarks.append(
                f"{count_objects(sampled)} written again, of which a sample is as it was"
            )

    def _prove(self, challenge: Challenge, *, certain: bool) -> Proof:
        """Return a proof, with zeros for what is lost if that is `certain`."""
        self._storage.pop_lost()
        proof = self._holding.prove(challenge)
        lost = self._storage.pop_lost()
        if lost and not certain:
            raise UnreachableError(
                f"{self._storage.address} can't be listed, so that {count_objects(len(lost))} may "
                "be unreachable and not lost"
            )
        return proof

    def _look_again(self, challenge: Challenge, findings: Findings) -> None:
        """Read the sampled blocks once more, and name the objects in which some are wrong."""
        known = set(findings.names)
        sample = [
            (file, indices)
            for file, indices in self._examination.sample_of(challenge.sample.indices)
            if name_of(file) not in known
        ]
        wrong = self._pool.map(lambda part: self._examination.wrong_blocks(*part), sample)
        damaged = {name_of(file) for (file, _), count in zip(sample, wrong, strict=True) if count}
        if damaged:
            self._sort_out(damaged, findings)

    def _sort_out(self, damaged: set[str], findings: Findings) -> None:
        """Tell objects that were written or removed while we read from those that are damaged."""
        try:
            differences = compare(self._holding.record, self._stamps, self._storage.walk())
        except UnreachableError:
            findings.damaged += sorted(damaged)
            return
        changed = {name_of(entry.file): entry for entry in differences.changed}
        gone = {name_of(file) for file in differences.vanished}
        for name in sorted(damaged):
            if name in gone:
                findings.gone.append(name)
            elif name not in changed:
                findings.damaged.append(name)
            else:
                (findings.resized if changed[name].resized else findings.rewritten).append(name)
