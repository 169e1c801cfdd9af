"""A bundle is the whole log in one file: any byte that changes is found, and it streams."""

import hashlib
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.sample_log import LEDGER, SIGNER, START, Record, holdings, sample, transaction

from holdfast.errors import InputError, MalformedError, StorageError
from holdfast.evidence.bundle import Bundle, write_bundle
from holdfast.evidence.checkpoint import Anchor
from holdfast.evidence.finding import Fault
from holdfast.evidence.leaf import Outcome, Registration
from holdfast.evidence.log import Entry
from holdfast.evidence.note import Signer
from holdfast.evidence.verification import Report, verify

same_folder = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200
)


def written(record: Record, folder: Path) -> bytes:
    path = folder / "made.bundle"
    path.unlink(missing_ok=True)
    write_bundle(record, path)
    return path.read_bytes()


def small() -> Record:
    """Return a log short enough to try every byte of its bundle."""
    record = Record()
    kept, _ = holdings()
    public = kept.store.key.public
    record.keys[public.id] = public
    record.add(Registration(START, kept.name, public.sectors, transaction(1)))
    record.add(*kept.audit(1, batch=b"b" * 32))
    record.add(*kept.audit(2, outcome=Outcome.FAILED, signed=True))
    record.sign(Anchor(LEDGER, b"\x44" * 32, 17))
    return record


def resealed(content: bytes) -> bytes:
    """Return the bundle with a last line that fits, as whoever edits it on purpose writes one."""
    body = content[: content.rindex(b"end ")] if b"end " in content else content
    return body + b"end %b\n" % hashlib.sha256(body).hexdigest().encode()


def checked(content: bytes, folder: Path) -> Report | None:
    """Return what is found in a file with this content, or nothing if it is no bundle."""
    path = folder / "tried.bundle"
    path.write_bytes(content)
    try:
        bundle = Bundle.open(path)
    except MalformedError:
        return None
    return verify(bundle, SIGNER.verifier)


def fine(content: bytes, folder: Path) -> bool:
    report = checked(content, folder)
    return report is not None and report.fine


def test_a_bundle_holds_the_whole_log(tmp_path: Path) -> None:
    record = sample()
    path = tmp_path / "made.bundle"
    write_bundle(record, path)
    bundle = Bundle.open(path)
    assert (bundle.verifier, bundle.size) == (record.verifier, record.size)
    assert list(bundle.public_keys()) == list(record.public_keys())
    assert list(bundle.checkpoints()) == record.notes
    assert list(bundle.entries()) == record.entries_
    assert list(bundle.entries(3, 5)) == record.entries_[3:5]
    assert verify(bundle, SIGNER.verifier) == verify(record, SIGNER.verifier)


def test_a_bundle_of_a_bundle_is_the_same(tmp_path: Path) -> None:
    content = written(sample(), tmp_path)
    write_bundle(Bundle.open(tmp_path / "made.bundle"), tmp_path / "again.bundle")
    assert (tmp_path / "again.bundle").read_bytes() == content


@pytest.mark.slow
def test_any_flipped_byte_is_found_even_if_the_last_line_fits_again(tmp_path: Path) -> None:
    content = written(small(), tmp_path)
    assert fine(content, tmp_path)
    last = content.rindex(b"end ")
    unseen = []
    for at in range(len(content)):
        flipped = bytearray(content)
        flipped[at] ^= 1
        tried = bytes(flipped) if at >= last else resealed(bytes(flipped))
        if fine(tried, tmp_path):
            unseen.append(at)
    assert not unseen


@pytest.mark.slow
@given(data=st.data())
@same_folder
def test_any_byte_made_any_other_is_found(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(written(sample(), tmp_path))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    assert not fine(bytes(content), tmp_path)


@pytest.mark.slow
@given(data=st.data())
@same_folder
def test_a_bundle_cut_anywhere_is_found(tmp_path: Path, data: st.DataObject) -> None:
    content = written(sample(), tmp_path)
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    assert not fine(cut, tmp_path)


def test_any_line_removed_doubled_or_swapped_is_found(tmp_path: Path) -> None:
    lines = written(sample(), tmp_path).splitlines(keepends=True)
    for at in range(len(lines)):
        before, line, after = lines[:at], lines[at], lines[at + 1 :]
        assert not fine(b"".join([*before, *after]), tmp_path)
        assert not fine(b"".join([*before, line, line, *after]), tmp_path)
        if after:
            assert not fine(b"".join([*before, after[0], line, *after[1:]]), tmp_path)


def test_lines_edited_on_purpose_are_found_but_for_deleted_proofs(tmp_path: Path) -> None:
    lines = written(sample(), tmp_path).splitlines(keepends=True)
    for at, line in enumerate(lines[:-1]):
        removed = resealed(b"".join([*lines[:at], *lines[at + 1 :]]))
        assert fine(removed, tmp_path) == line.startswith(b"proof "), line
        doubled = resealed(b"".join([*lines[:at], line, *lines[at:]]))
        # A head that is told twice is still the same head.
        assert fine(doubled, tmp_path) == line.startswith(b"checkpoint "), line


@pytest.mark.parametrize("word", [b"key ", b"proof ", b"end "])
def test_hexadecimal_in_capitals_is_found(tmp_path: Path, word: bytes) -> None:
    lines = written(sample(), tmp_path).splitlines(keepends=True)
    at = next(at for at, line in enumerate(lines) if line.startswith(word))
    lines[at] = word + lines[at].removeprefix(word).upper()
    content = b"".join(lines)
    assert not fine(content if word == b"end " else resealed(content), tmp_path)


def test_a_second_text_of_the_same_checkpoint_is_found(tmp_path: Path) -> None:
    content = written(sample(), tmp_path)
    assert not fine(resealed(content.replace(b"\\n", b"\\u000a", 1)), tmp_path)


def test_a_deleted_proof_is_counted(tmp_path: Path) -> None:
    lines = written(sample(), tmp_path).splitlines(keepends=True)
    bare = [line for line in lines if not line.startswith(b"proof ")]
    report = checked(resealed(b"".join(bare)), tmp_path)
    assert report
    assert report.fine
    assert (report.proofs, report.proofs_gone) == (0, 5)


def test_damage_within_is_a_finding_and_no_error(tmp_path: Path) -> None:
    content = written(sample(), tmp_path)
    for damaged in (content[:-2], content + b"more\n", content.replace(b"\nkey ", b"\nkex ", 1)):
        report = checked(damaged, tmp_path)
        assert report
        assert {finding.fault for finding in report.findings} == {Fault.MALFORMED}


@given(st.binary(max_size=300))
@same_folder
def test_noise_is_refused_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    assert checked(content, tmp_path) is None


@pytest.mark.slow
@given(
    st.lists(st.sampled_from(["key", "checkpoint", "leaf", "proof", "end"]), max_size=5), st.data()
)
@same_folder
def test_noise_after_a_right_first_line_is_found(
    tmp_path: Path, words: list[str], data: st.DataObject
) -> None:
    contents = st.binary(max_size=80) | st.text().map(lambda t: t.encode("utf-8", "replace"))
    body = b"holdfast-evidence 1 1 %b\n" % str(SIGNER.verifier).encode()
    for word in words:
        body += word.encode() + b" " + data.draw(contents) + b"\n"
    assert not fine(resealed(body), tmp_path)
    assert not fine(body, tmp_path)


@pytest.mark.parametrize(
    "first",
    [
        "",
        "\n",
        "holdfast-evidence 2 1 {}\n",
        "holdfast-evidence 1 01 {}\n",
        "x {}\n",
        "holdfast-evidence 1 1 {}",
        "holdfast-evidence 1 1 {} \n",
        "holdfast-evidence 1 1 {}x\n",
    ],
)
def test_a_wrong_first_line_is_no_bundle(tmp_path: Path, first: str) -> None:
    path = tmp_path / "tried.bundle"
    path.write_text(first.format(SIGNER.verifier))
    with pytest.raises(MalformedError):
        Bundle.open(path)


def test_a_first_line_that_is_no_text_is_no_bundle(tmp_path: Path) -> None:
    signer = Signer("log\N{REPLACEMENT CHARACTER}", bytes(32))
    path = tmp_path / "tried.bundle"
    first = f"holdfast-evidence 1 1 {signer.verifier}\n".encode()
    path.write_bytes(first)
    assert Bundle.open(path).verifier == signer.verifier
    path.write_bytes(first.replace("\N{REPLACEMENT CHARACTER}".encode(), b"\xff"))
    with pytest.raises(MalformedError):
        Bundle.open(path)


def test_a_bundle_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.bundle"):
        Bundle.open(tmp_path / "nowhere.bundle")


def test_an_export_overwrites_nothing(tmp_path: Path) -> None:
    content = written(sample(), tmp_path)
    with pytest.raises(InputError, match="exists already"):
        write_bundle(small(), tmp_path / "made.bundle")
    assert (tmp_path / "made.bundle").read_bytes() == content


def test_an_export_that_fails_leaves_nothing(tmp_path: Path) -> None:
    class Broken(Record):
        def entries(self, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
            yield from super().entries(start, stop)
            raise StorageError("the database is gone")

    record = sample()
    broken = Broken(record.entries_, record.notes, record.keys)
    with suppress(StorageError):
        write_bundle(broken, tmp_path / "made.bundle")
    assert not list(tmp_path.iterdir())


@dataclass
class Long(Record):
    """A log of many audits that are made as they are asked for."""

    audits: int = 0

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        assert (start, stop) == (0, None)
        for _ in range(self.audits):
            yield Entry(b"x" * 1000, bytes(96))

    @property
    def size(self) -> int:
        return self.audits


def peak(audits: int, path: Path) -> int:
    """Return how much memory writing and verifying a log takes at most."""
    tracemalloc.start()
    try:
        write_bundle(Long(audits=audits), path)
        verify(Bundle.open(path), SIGNER.verifier)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_long_log_takes_no_more_memory_than_a_short_one(tmp_path: Path) -> None:
    peak(1500, tmp_path / "first.bundle")
    short, long = peak(1500, tmp_path / "short.bundle"), peak(6000, tmp_path / "long.bundle")
    assert long < short + 100_000


@pytest.mark.parametrize(
    ("word", "content", "said"),
    [
        (b"key", b"xx", "not hexadecimal"),
        (b"key", b"ab", "no whole points"),
        (b"checkpoint", b'"cut', "a checkpoint is no text"),
        (b"checkpoint", b"7", "not in its canonical form"),
    ],
)
def test_a_key_or_a_checkpoint_that_is_none_is_named(
    tmp_path: Path, word: bytes, content: bytes, said: str
) -> None:
    """The last line fits, so only the line itself can give it away."""
    lines = written(small(), tmp_path).splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if line.startswith(word))
    lines[at] = b"%b %b\n" % (word, content)
    path = tmp_path / "edited.bundle"
    path.write_bytes(resealed(b"".join(lines)))
    bundle = Bundle.open(path)
    with pytest.raises(MalformedError, match=said):
        list(bundle.public_keys() if word == b"key" else bundle.checkpoints())
