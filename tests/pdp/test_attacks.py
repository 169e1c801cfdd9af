"""The attacks of docs/security.md on the audit primitive, each carried out.

Every test first shows that the same audit passes when the node is honest.
"""

import hashlib
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.memory_holding import FILE_ID, NONCE, Holding, tag_in_memory
from tests.support.tag_definition import sectors_of, tag_of

from holdfast.errors import MalformedError, RefusedError
from holdfast.model.detection import detection_probability
from holdfast.pdp import (
    Challenge,
    FileEntry,
    Location,
    Proof,
    PublicKey,
    SecretKey,
    Target,
    curve,
    draw_challenge,
    tag_file,
    target_of,
    verification,
    verify_in_public,
    verify_with_key,
    write_key,
)
from holdfast.pdp.field import SECTOR_BYTES, Q
from holdfast.pdp.journal import TagJournal
from holdfast.pdp.sealing import ScryptCost


@pytest.fixture
def holding() -> Holding:
    """Return an honest node's holding of two files, which passes."""
    honest = Holding.of(31 * 2 * 40 + 7, 31 * 2 * 20)
    assert honest.passes()
    return honest


def accepted(holding: Holding, challenge: Challenge, proof: Proof) -> bool:
    """Return the verdict, after making sure that both forms of the check agree on it."""
    target = target_of(holding.key, holding.inventory, challenge)
    in_public = verify_in_public(holding.key.public, target, challenge, proof)
    assert holding.verify(challenge, proof) == in_public
    return in_public


def test_forged_values_are_refused(holding: Holding) -> None:
    challenge = draw_challenge(holding.inventory, 30)
    honest = holding.prove(challenge)
    assert accepted(holding, challenge, honest)
    first, second = honest.mu
    forgeries = [
        replace(honest, challenge_id=bytes(32)),
        replace(honest, sigma=(honest.sigma + 1) % Q),
        replace(honest, sigma=Q - honest.sigma),
        replace(honest, mu=((first + 1) % Q, second)),
        replace(honest, mu=(second, first)),
        replace(honest, mu=(first,)),
        replace(honest, mu=(first, second, 0)),
        replace(honest, sigma=0, mu=(0, 0)),
        replace(honest, sigma=2 * honest.sigma % Q, mu=(2 * first % Q, 2 * second % Q)),
    ]
    for forged in forgeries:
        assert not accepted(holding, challenge, forged), forged


def test_second_encodings_of_the_same_residue_are_refused(holding: Holding) -> None:
    challenge = draw_challenge(holding.inventory, 30)
    honest = holding.prove(challenge)
    assert accepted(holding, challenge, honest)
    for doubled in (
        replace(honest, sigma=honest.sigma + Q),
        replace(honest, mu=(honest.mu[0] + Q, honest.mu[1])),
        replace(honest, sigma=honest.sigma - Q),
    ):
        assert not accepted(holding, challenge, doubled)
    with pytest.raises(MalformedError, match="below q"):
        Proof.decode(_with_sigma(honest, Q))


def _with_sigma(proof: Proof, sigma: int) -> bytes:
    return replace(proof, sigma=sigma).encode()


def test_an_earlier_proof_cannot_be_replayed(holding: Holding) -> None:
    earlier, later = (draw_challenge(holding.inventory, 30) for _ in range(2))
    old = holding.prove(earlier)
    assert accepted(holding, earlier, old)
    assert not accepted(holding, later, old)
    assert not accepted(holding, later, replace(old, challenge_id=later.id))


def test_the_proof_of_another_holding_is_refused(holding: Holding) -> None:
    other = Holding(holding.key, [bytearray(b"other content" * 300)])
    challenge = draw_challenge(other.inventory, 20)
    proof = other.prove(challenge)
    assert accepted(other, challenge, proof)
    mine = draw_challenge(holding.inventory, 20, seed=challenge.seed)
    assert mine.id != challenge.id, "the inventory hash enters the challenge"
    assert not accepted(holding, mine, replace(proof, challenge_id=mine.id))


def test_the_proof_of_another_nodes_replica_is_refused(holding: Holding) -> None:
    replica = Holding(SecretKey(b"r" * 32, 2), [bytearray(c) for c in holding.contents])
    challenge = draw_challenge(replica.inventory, 20)
    proof = replica.prove(challenge)
    assert accepted(replica, challenge, proof)
    mine = draw_challenge(holding.inventory, 20, seed=challenge.seed)
    assert not accepted(holding, mine, replace(proof, challenge_id=mine.id))


def test_disagreement_on_the_inventory_shows_before_any_proof(holding: Holding) -> None:
    assert holding.passes()
    entry = FileEntry(b"n" * 16, 1, NONCE, 5)
    first, second = holding.inventory.files
    for other in (
        holding.inventory.with_file(entry),
        holding.inventory.without_file(holding.ids[0]),
        replace(holding.inventory, files=holding.inventory.files[::-1]),
        holding.inventory.with_file(replace(first, version=2)),
        replace(holding.inventory, files=(replace(first, nonce=bytes(32)), second)),
    ):
        with pytest.raises(RefusedError, match="disagree"):
            holding.prove(draw_challenge(other, 5))


def test_a_substituted_block_is_found(holding: Holding) -> None:
    size = holding.block_bytes
    holding.contents[0][:size] = holding.contents[0][size : 2 * size]
    assert not holding.passes()


def test_swapped_blocks_are_found_even_with_their_tags(holding: Holding) -> None:
    content, size = holding.contents[0], holding.block_bytes
    content[:size], content[size : 2 * size] = content[size : 2 * size], content[:size]
    tags = holding.get_tags()
    tags[0], tags[1] = tags[1], tags[0]
    holding.set_tags(tags)
    assert not holding.passes()


def test_a_block_and_tag_of_another_file_are_found(holding: Holding) -> None:
    size = holding.block_bytes
    holding.contents[0][:size] = holding.contents[1][:size]
    holding.set_tags([holding.get_tags(1)[0], *holding.get_tags(0)[1:]])
    assert not holding.passes()


def test_a_block_and_tag_of_an_older_version_are_found(holding: Holding) -> None:
    old_content, old_tags = bytes(holding.contents[0]), holding.get_tags()
    changed = bytearray(old_content)
    changed[:5] = b"fresh"
    header, tags = tag_in_memory(holding.key, bytes(changed), holding.ids[0], version=2)
    holding.contents[0], holding.tags[0] = changed, bytearray(tags)
    holding.inventory = holding.inventory.with_file(header.entry)
    assert holding.passes()
    holding.contents[0] = bytearray(old_content)
    holding.set_tags(old_tags)
    assert not holding.passes()


def test_a_cut_off_or_extended_file_is_noticed_before_any_proof(holding: Holding) -> None:
    whole = bytes(holding.contents[0])
    for changed in (whole[:-1], whole[: len(whole) // 2], whole + b"\0", b""):
        holding.contents[0] = bytearray(changed)
        with pytest.raises(MalformedError, match="cut off, extended or replaced"):
            holding.prove(holding.challenge_all())


def test_zeros_at_the_end_are_not_mistaken_for_padding() -> None:
    plain = tag_in_memory(SecretKey(b"k" * 32, 1), b"abc")
    longer = tag_in_memory(SecretKey(b"k" * 32, 1), b"abc\0")
    marked = tag_in_memory(SecretKey(b"k" * 32, 1), b"abc\x80")
    tags = {content[-36:-4] for _, content in (plain, longer, marked)}
    assert len(tags) == 3


def test_alpha_falls_to_one_audit_under_the_scalar_check_on_chain() -> None:
    """Why the paper's check must not be deployed: tau beside sigma and mu gives the key away."""
    holding = Holding.of(31 * 50, sectors=1)
    challenge = draw_challenge(holding.inventory, 10)
    proof = holding.prove(challenge)
    assert accepted(holding, challenge, proof)
    published_tau = verification._tau(holding.key, holding.inventory, challenge)

    alpha = (proof.sigma - published_tau) * pow(proof.mu[0], -1, Q) % Q
    assert alpha == holding.key.alphas[0]

    # With alpha the node makes tags for whatever it likes to store.
    rows = []
    for index, tag in enumerate(holding.get_tags()):
        block = bytes(holding.contents[0][index * 31 : index * 31 + 31])
        if len(block) < 31:
            rows.append(tag)
            continue
        prf = (int.from_bytes(tag, "big") - alpha * sectors_of(block)[0]) % Q
        forged = (prf + alpha * int.from_bytes(b"\x66" * 31, "little")) % Q
        rows.append(forged.to_bytes(32, "big"))
    holding.contents[0][:] = b"\x66" * len(holding.contents[0])
    holding.set_tags(rows)
    assert holding.passes(), "the forgery is perfect: all data is gone and every audit passes"


def test_alpha_does_not_fall_under_the_lifted_check() -> None:
    """The same arithmetic, on all that the lifted check publishes in many audits."""
    holding = Holding.of(31 * 50, sectors=1)
    public_point = curve.encode(holding.key.public.points[0])
    guesses = set()
    for _ in range(20):
        challenge = draw_challenge(holding.inventory, 10)
        proof = holding.prove(challenge)
        target = target_of(holding.key, holding.inventory, challenge)
        assert verify_in_public(holding.key.public, target, challenge, proof)
        published = [target.point[1:], target.point, challenge.id, challenge.seed]
        for value in (int.from_bytes(part, "big") for part in published):
            for tau in (value % Q, -value % Q):
                guesses.add((proof.sigma - tau) * pow(proof.mu[0], -1, Q) % Q)
        guesses.add(proof.sigma * pow(proof.mu[0], -1, Q) % Q)
    for guess in guesses:
        assert curve.encode(curve.times_base(guess)) != public_point
        assert guess not in (holding.key.alphas[0], Q - holding.key.alphas[0])


def test_a_forger_who_holds_the_target_cannot_pass_without_the_data() -> None:
    """Knowing T, A and old answers, the node tries every linear trick it has."""
    holding = Holding.of(31 * 50, sectors=1)
    old = draw_challenge(holding.inventory, 10)
    answer = holding.prove(old)
    challenge = draw_challenge(holding.inventory, 10)
    target = target_of(holding.key, holding.inventory, challenge)
    assert verify_in_public(holding.key.public, target, challenge, holding.prove(challenge))
    x = int.from_bytes(target.point[1:], "big") % Q
    for sigma, mu in itertools.product((0, 1, x, answer.sigma, Q - 1), (0, 1, x, answer.mu[0])):
        forged = Proof(challenge.id, sigma, (mu,))
        assert not verify_in_public(holding.key.public, target, challenge, forged)


def test_a_right_proof_fails_against_a_wrong_target(holding: Holding) -> None:
    challenge = draw_challenge(holding.inventory, 10)
    proof = holding.prove(challenge)
    wrong = Target(holding.key.public.id, challenge.id, curve.encode(curve.times_base(12345)))
    assert not verify_in_public(holding.key.public, wrong, challenge, proof)
    infinite = Target(holding.key.public.id, challenge.id, curve.encode(None))
    assert not verify_in_public(holding.key.public, infinite, challenge, proof)


def test_whoever_chooses_the_target_can_make_any_proof_pass(holding: Holding) -> None:
    """So a pass is the owner's word; a failure needs the node's signature."""
    challenge = draw_challenge(holding.inventory, 10)
    false = Proof(challenge.id, 123, (4, 5))
    assert not accepted(holding, challenge, false)
    public = zip(holding.key.public.points, false.mu, strict=True)
    products = [curve.times(point, -value) for point, value in public]
    implied = curve.total([curve.times_base(false.sigma), *products])
    target = Target(holding.key.public.id, challenge.id, curve.encode(implied))
    assert verify_in_public(holding.key.public, target, challenge, false)
    assert not verify_in_public(holding.key.public, target, challenge, holding.prove(challenge))


def test_changed_content_is_never_tagged_under_the_same_version(tmp_path: Path) -> None:
    """A version is tagged once. What keeps the key safe is the nonce, in the next two tests."""
    key, source = SecretKey.generate(1), tmp_path / "file"
    journal, out = TagJournal(tmp_path / "journal"), tmp_path / "file.tags"

    def tag(version: int) -> None:
        tag_file(
            Location(str(source)), key, file_id=FILE_ID, version=version, out=out, journal=journal
        )

    source.write_bytes(b"a" * 100)
    tag(1)
    published = out.read_bytes()
    source.write_bytes(b"b" * 100)
    with pytest.raises(RefusedError, match="new version"):
        tag(1)
    assert out.read_bytes() == published
    assert [path.name for path in tmp_path.glob(".*")] == []
    tag(2)


def alpha_by_subtraction(key: SecretKey, nonces: tuple[bytes, bytes]) -> int:
    """Return what the difference of two tags gives for alpha, if their PRF values are equal."""
    blocks = b"a" * 31, b"b" * 31
    tags = [
        tag_of(key, FILE_ID, 1, nonce, 0, block)
        for nonce, block in zip(nonces, blocks, strict=True)
    ]
    difference = sectors_of(blocks[0])[0] - sectors_of(blocks[1])[0]
    return (tags[0] - tags[1]) * pow(difference, -1, Q) % Q


def test_two_contents_under_one_nonce_give_alpha_away_and_under_two_nonces_do_not() -> None:
    key = SecretKey.generate(1)
    assert alpha_by_subtraction(key, (NONCE, NONCE)) == key.alphas[0]
    assert alpha_by_subtraction(key, (NONCE, NONCE[::-1])) != key.alphas[0]


def test_every_tagging_draws_a_nonce_of_its_own(tmp_path: Path) -> None:
    """Before nonces, two taggings of one version without a journal had the same PRF values."""
    key, source = SecretKey.generate(1), tmp_path / "file"
    source.write_bytes(b"a" * 100)
    headers = [
        tag_file(Location(str(source)), key, file_id=FILE_ID, version=1, out=tmp_path / "tags")
        for _ in range(2)
    ]
    assert headers[0].nonce != headers[1].nonce
    assert all(len(header.nonce) == 32 for header in headers)
    values = {key.prf(FILE_ID, 1, header.nonce).value(0) for header in headers}
    assert len(values) == 2


def test_a_key_reached_by_two_paths_has_one_journal(tmp_path: Path) -> None:
    """Before the path was resolved, a symbolic link to the key had an empty journal."""
    (tmp_path / "key").write_bytes(b"")
    (tmp_path / "link").symlink_to("key")
    (tmp_path / "folder").symlink_to(".")
    TagJournal.beside(tmp_path / "key").add(FILE_ID, 1)
    for path in (tmp_path / "link", tmp_path / "folder" / "link"):
        journal = TagJournal.beside(path)
        assert journal.latest_version(FILE_ID) == 1
        with pytest.raises(RefusedError, match="tagged before"):
            journal.add(FILE_ID, 1)


def test_the_same_master_under_another_number_of_sectors_shares_nothing() -> None:
    one, two = SecretKey(b"m" * 32, 1), SecretKey(b"m" * 32, 2)
    assert one.alphas[0] not in two.alphas
    assert one.prf(FILE_ID, 1, NONCE).value(0) != two.prf(FILE_ID, 1, NONCE).value(0)


def test_no_two_sectors_are_congruent() -> None:
    """At 31 bytes the tags bind; at 32 bytes m and m + q would have the same tag."""
    assert 256**SECTOR_BYTES <= Q
    assert 256 ** (SECTOR_BYTES + 1) > Q
    small = 5
    assert small + Q < 256**32
    assert (small + Q) % Q == small


def test_dropped_blocks_are_found_as_often_as_the_formula_says() -> None:
    holding = Holding.of(31 * 200 - 1, sectors=1)
    assert holding.passes()
    dropped = 10
    holding.contents[0][: 31 * dropped] = bytes(31 * dropped)
    blocks, rounds, sampled = holding.inventory.blocks, 400, 20
    prover = holding.prover()
    detected = 0
    for number in range(rounds):
        seed = hashlib.sha256(number.to_bytes(4, "big")).digest()
        challenge = draw_challenge(holding.inventory, sampled, seed=seed)
        detected += not holding.verify(challenge, prover.prove(challenge))
    expected = float(detection_probability(dropped, sampled, blocks))
    assert abs(detected / rounds - expected) < 4 * (expected * (1 - expected) / rounds) ** 0.5


def test_the_next_challenge_cannot_be_guessed_from_those_before(holding: Holding) -> None:
    seeds = {draw_challenge(holding.inventory, 1).seed for _ in range(1000)}
    assert len(seeds) == 1000
    bits = np.unpackbits(np.frombuffer(b"".join(seeds), np.uint8))
    assert abs(bits.mean() - 0.5) < 5 * 0.5 / len(bits) ** 0.5


def test_published_mu_reveal_the_data_after_enough_audits() -> None:
    """Why data worth hiding is encrypted before it is tagged: each mu is one linear equation."""
    holding = Holding.of(31 * 3 - 5, sectors=1)
    rows, right = [], []
    for _ in range(holding.inventory.blocks):
        challenge = holding.challenge_all()
        sample = challenge.expand()
        rows.append([int.from_bytes(v.tobytes(), "little") for v in sample.coefficients])
        right.append(holding.prove(challenge).mu[0])
    solved = _solve(rows, right)
    recovered = b"".join(value.to_bytes(31, "little") for value in solved)
    assert recovered.startswith(bytes(holding.contents[0]))


def _solve(rows: list[list[int]], right: list[int]) -> list[int]:
    matrix = [[*row, value] for row, value in zip(rows, right, strict=True)]
    size = len(matrix)
    for k in range(size):
        inverse = pow(matrix[k][k], -1, Q)
        matrix[k] = [value * inverse % Q for value in matrix[k]]
        for other in (i for i in range(size) if i != k):
            factor = matrix[other][k]
            pairs = zip(matrix[other], matrix[k], strict=True)
            matrix[other] = [(a - factor * b) % Q for a, b in pairs]
    return [row[-1] for row in matrix]


def test_a_hostile_public_key_is_refused() -> None:
    good = SecretKey.generate(2).public
    assert PublicKey.decode(good.encode()) == good
    not_on_curve = next(x for n in range(1, 100) if not _is_abscissa(x := n.to_bytes(32, "big")))
    for x in (bytes(32), b"\xff" * 32, Q.to_bytes(32, "big"), not_on_curve):
        with pytest.raises(MalformedError, match="public key point 2"):
            PublicKey.decode(PublicKey((good.abscissas[0], x)).encode())


def _is_abscissa(x: bytes) -> bool:
    try:
        curve.lift(x)
    except MalformedError:
        return False
    return True


def test_a_stolen_key_file_holds_nothing_in_the_clear(tmp_path: Path) -> None:
    key = SecretKey.generate(2)
    write_key(tmp_path / "key", key, b"correct horse", ScryptCost(n=2**10))
    content = (tmp_path / "key").read_bytes()
    secret_numbers = [key.master, *(alpha.to_bytes(32, "big") for alpha in key.alphas)]
    for secret in (*secret_numbers, b"correct horse"):
        assert secret not in content
        assert secret.hex().encode() not in content
    assert key.master.hex() not in repr(key)


def test_the_check_with_the_key_needs_the_right_key(holding: Holding) -> None:
    challenge = draw_challenge(holding.inventory, 5)
    proof = holding.prove(challenge)
    assert holding.verify(challenge, proof)
    stranger = SecretKey(b"s" * 32, 2)
    inventory = replace(holding.inventory, key_id=stranger.public.id)
    rebound = draw_challenge(inventory, 5, seed=challenge.seed)
    assert not verify_with_key(
        stranger, inventory, rebound, replace(proof, challenge_id=rebound.id)
    )
