"""Signed notes, by the test vectors of Go's golang.org/x/mod/sumdb/note."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import MalformedError
from holdfast.evidence.note import Note, Signer, Verifier

VERIFIER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
SIGNER = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
ENOCH = "EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"
TEXT = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
)
BY_PETER = (
    "\N{EM DASH} PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqf"
    "qdngotpRZb6KE6RyyBwJnAM=\n"
)
BY_ENOCH = (
    "\N{EM DASH} EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOTG"
    "wnWLox33WWd1RvMc+QQ=\n"
)
NOTE = f"{TEXT}\n{BY_PETER}".encode()
peter, enoch = Verifier.decode(VERIFIER), Verifier.decode(ENOCH)


def test_a_key_is_written_as_it_was_read() -> None:
    assert str(peter) == VERIFIER
    assert Signer.decode(SIGNER).encode() == SIGNER
    assert Signer.decode(SIGNER).verifier == peter


def test_every_piece_and_every_edit_of_a_verifier_key_is_refused() -> None:
    pieces = {VERIFIER[i:j] for i in range(len(VERIFIER)) for j in range(i, len(VERIFIER) + 1)}
    edits = {
        VERIFIER[:i] + chr(ord(VERIFIER[i]) + 1) + VERIFIER[i + 1 :] for i in range(len(VERIFIER))
    }
    others = {
        "PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==",
        "PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
    }
    for text in (pieces - {VERIFIER}) | edits | others:
        with pytest.raises(MalformedError):
            Verifier.decode(text)


def test_every_edit_of_a_signer_key_is_refused() -> None:
    for i in range(len(SIGNER)):
        with pytest.raises(MalformedError):
            Signer.decode(SIGNER[:i] + chr(ord(SIGNER[i]) + 1) + SIGNER[i + 1 :])
        with pytest.raises(MalformedError):
            Signer.decode(SIGNER[:i])


def test_a_signature_is_the_one_that_go_makes() -> None:
    assert Signer.decode(SIGNER).sign(TEXT) == NOTE


def test_the_text_form_of_a_signer_shows_no_secret() -> None:
    secret = SIGNER.rsplit("+", 1)[1]
    assert secret not in repr(Signer.decode(SIGNER))


def test_signatures_of_strangers_neither_help_nor_harm() -> None:
    both = Note.decode(f"{TEXT}\n{BY_PETER}{BY_ENOCH}".encode())
    assert peter.signed(both)
    assert enoch.signed(both)
    assert not enoch.signed(Note.decode(NOTE))


def test_a_wrong_signature_spoils_a_right_one() -> None:
    wrong = BY_PETER.replace("x08go/ZJ", "x08go/ZK")
    assert not peter.signed(Note.decode(f"{TEXT}\n{wrong}".encode()))
    assert not peter.signed(Note.decode(f"{TEXT}\n{BY_PETER}{wrong}".encode()))
    long = BY_PETER.removesuffix("=\n") + "A\n"
    assert not peter.signed(Note.decode(f"{TEXT}\n{long}".encode()))


@pytest.mark.parametrize(
    "content",
    [
        TEXT,
        TEXT + "\n",
        f"{TEXT}\n{BY_PETER}"[:-1],
        f"\x01{TEXT}\n{BY_PETER}",
        f"{TEXT}\n{BY_PETER.replace('PeterNeumann', 'Bad Name')}",
        f"{TEXT}\n{BY_PETER.replace('PeterNeumann', 'a+b')}",
        f"{TEXT}\n{BY_PETER}Unexpected line.\n",
        f"{TEXT}\n{BY_PETER * 101}",
        f"{TEXT}\n\N{EM DASH} PeterNeumann x08g\n",
        f"\n{BY_PETER}",
    ],
)
def test_what_is_no_note_is_refused(content: str) -> None:
    with pytest.raises(MalformedError):
        Note.decode(content.encode())


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(MalformedError):
        Note.decode(b"\xff" + NOTE)


def test_a_text_that_makes_no_note_is_not_signed() -> None:
    with pytest.raises(MalformedError):
        Signer.decode(SIGNER).sign("no line end")


@given(st.integers(0, len(NOTE) - 1), st.integers(1, 255))
def test_no_byte_of_a_note_can_be_changed(at: int, mask: int) -> None:
    content = bytearray(NOTE)
    content[at] ^= mask
    try:
        note = Note.decode(bytes(content))
    except MalformedError:
        return
    assert not peter.signed(note)


@given(st.binary() | st.text().map(lambda text: text.encode("utf-8", "replace")))
def test_noise_is_refused_or_kept_as_it_is(content: bytes) -> None:
    try:
        note = Note.decode(content)
    except MalformedError:
        return
    assert note.encode() == content


@given(st.text() | st.lists(st.text(), min_size=3, max_size=6).map("+".join))
def test_noise_is_no_key(text: str) -> None:
    for decode in (Verifier.decode, Signer.decode, lambda t: Signer.decode(f"PRIVATE+KEY+{t}")):
        with pytest.raises(MalformedError):
            decode(text)


def test_new_signers_differ() -> None:
    first, second = (Signer.generate("log.example") for _ in range(2))
    assert first.verifier != second.verifier
    assert first.verifier.signed(Note.decode(first.sign("text\n")))
    assert not second.verifier.signed(Note.decode(first.sign("text\n")))
