"""Checkpoints: a log's size and root, as C2SP writes them, and where they are anchored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import MalformedError
from holdfast.evidence.checkpoint import Anchor, Checkpoint, open_checkpoint, with_anchor
from holdfast.evidence.note import Note, Signer
from holdfast.ledger.interface import Domain

# The example of the specification.
SOFA = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
SIGNER = Signer("example.com/behind-the-sofa", b"s" * 32)
CHECKPOINT = Checkpoint.decode(SOFA)
ANCHOR = Anchor(Domain(1, b"c" * 20), b"t" * 32, 99)


def test_the_example_of_the_specification_is_read_and_written() -> None:
    assert (CHECKPOINT.origin, CHECKPOINT.size) == ("example.com/behind-the-sofa", 20852163)
    assert CHECKPOINT.encode() == SOFA
    assert CHECKPOINT.anchor is None


def test_extension_lines_are_kept() -> None:
    text = f"{SOFA}one more line\n"
    assert Checkpoint.decode(text).extensions == ("one more line",)
    assert Checkpoint.decode(text).encode() == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        SOFA[:-1],
        "\n".join(SOFA.split("\n")[:2]) + "\n",
        SOFA.replace("20852163", "020852163"),
        SOFA.replace("20852163", "+20852163"),
        SOFA.replace("20852163", "\N{ARABIC-INDIC DIGIT TWO}"),
        SOFA.replace("20852163", "9" * 400),
        SOFA.replace("20852163", str(2**53)),
        SOFA.replace("20852163", ""),
        SOFA.replace("example.com/behind-the-sofa", ""),
        SOFA.replace("q2I=", "q2J="),
        SOFA.replace("q2I=", "q2I"),
        SOFA.replace("CsUY", ""),
        SOFA + "\n",
        SOFA + "\nmore\n",
    ],
)
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(MalformedError):
        Checkpoint.decode(text)


def test_an_anchor_is_signed_with_the_root_it_is_of() -> None:
    note = with_anchor(CHECKPOINT, ANCHOR).sign(SIGNER)
    opened = open_checkpoint(note, SIGNER.verifier)
    assert opened.anchor == ANCHOR
    assert (opened.size, opened.root) == (CHECKPOINT.size, CHECKPOINT.root)


@pytest.mark.parametrize(
    "line",
    [
        "anchored",
        f"anchored 1 {'63' * 20} {'74' * 32}",
        f"anchored 01 {'63' * 20} {'74' * 32} 99",
        f"anchored 1 {'63' * 19} {'74' * 32} 99",
        f"anchored 1 {'63' * 20} {'7A' * 32} 99",
        f"anchored 1 {'63' * 20} {'74' * 32} 99 ",
    ],
)
def test_an_anchor_that_leads_nowhere_is_refused(line: str) -> None:
    with pytest.raises(MalformedError):
        _ = Checkpoint(CHECKPOINT.origin, 1, CHECKPOINT.root, (line,)).anchor


def test_only_the_log_itself_speaks_for_its_tree() -> None:
    note = CHECKPOINT.sign(SIGNER)
    assert open_checkpoint(note, SIGNER.verifier) == CHECKPOINT
    stranger = Signer("example.com/behind-the-sofa", b"t" * 32)
    with pytest.raises(MalformedError, match="not signed by"):
        open_checkpoint(note, stranger.verifier)
    other = Signer("example.com/elsewhere", b"s" * 32)
    with pytest.raises(MalformedError, match="of the log"):
        open_checkpoint(CHECKPOINT.sign(other), other.verifier)
    both = Note.decode(note)
    signatures = both.signatures + Note.decode(CHECKPOINT.sign(other)).signatures
    with pytest.raises(MalformedError, match="nobody here"):
        open_checkpoint(Note(both.text, signatures).encode(), SIGNER.verifier)


@given(st.data())
def test_no_byte_of_a_signed_checkpoint_can_be_changed(data: st.DataObject) -> None:
    content = bytearray(with_anchor(CHECKPOINT, ANCHOR).sign(SIGNER))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(MalformedError):
        open_checkpoint(bytes(content), SIGNER.verifier)


@given(st.text())
def test_noise_is_refused_or_kept_as_it_is(text: str) -> None:
    try:
        checkpoint = Checkpoint.decode(text)
    except MalformedError:
        return
    assert checkpoint.encode() == text
