"""Checkpoints come back as they were saved, or are refused in a sentence."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from tests.support.checkpoints import (
    ARCHITECTURE,
    CHEAP,
    MANIFEST,
    PLAIN,
    STRICT,
    SWIFT,
    random_weights,
)

from holdfast import atomic
from holdfast.errors import InputError, StorageError
from holdfast.policy import checkpoint, json_schema
from holdfast.policy.checkpoint import Default, load, save
from holdfast.policy.dial import choose_dial
from holdfast.policy.lagrangian import Ceilings

WEIGHTS = random_weights(ARCHITECTURE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tmp_path / "run", MANIFEST, WEIGHTS)
    return tmp_path / "run"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    save(folder, MANIFEST, WEIGHTS)
    return folder


def edit(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = folder / checkpoint.MANIFEST
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def put_weights(folder: Path, content: bytes) -> None:
    """Replace the weights and let the manifest vouch for them."""
    (folder / checkpoint.WEIGHTS).write_bytes(content)
    edit(folder, lambda manifest: manifest.update(sha256=hashlib.sha256(content).hexdigest()))


@pytest.mark.parametrize("manifest", [MANIFEST, PLAIN])
def test_a_checkpoint_comes_back_as_it_was_saved(
    manifest: checkpoint.Manifest, tmp_path: Path
) -> None:
    parameters = random_weights(manifest.architecture)
    save(tmp_path / "deep" / "run", manifest, parameters)
    loaded = load(tmp_path / "deep" / "run")
    assert replace(loaded.manifest, sha256="") == manifest
    assert loaded.parameters.keys() == parameters.keys()
    for name, array in parameters.items():
        np.testing.assert_array_equal(loaded.parameters[name], array)


def test_equal_content_gives_equal_bytes(saved: Path, tmp_path: Path) -> None:
    backwards = {name: np.asfortranarray(WEIGHTS[name]) for name in reversed(WEIGHTS)}
    whole = replace(MANIFEST, dials=(replace(CHEAP, gas=20), SWIFT, STRICT))
    save(tmp_path, whole, backwards)
    for name in (checkpoint.WEIGHTS, checkpoint.MANIFEST):
        assert (tmp_path / name).read_bytes() == (saved / name).read_bytes()


def test_saving_anew_replaces_the_checkpoint_and_leaves_nothing_else(folder: Path) -> None:
    save(folder, PLAIN, random_weights(PLAIN.architecture))
    assert load(folder).manifest.method == "dqn"
    assert {path.name for path in folder.iterdir()} == {checkpoint.WEIGHTS, checkpoint.MANIFEST}


def test_weights_without_their_manifest_are_refused_as_after_a_crash(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = atomic.write

    def crash(path: Path, content: bytes) -> None:
        if path.name == checkpoint.MANIFEST:
            raise KeyboardInterrupt
        write(path, content)

    monkeypatch.setattr(atomic, "write", crash)
    with pytest.raises(KeyboardInterrupt):
        save(folder, MANIFEST, random_weights(ARCHITECTURE, seed=1))
    with pytest.raises(InputError, match="its SHA-256 is not the one in the manifest"):
        load(folder)


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="can't make the folder"):
        save(tmp_path / "file" / "run", MANIFEST, WEIGHTS)


def test_what_load_would_refuse_is_not_saved(tmp_path: Path) -> None:
    wrong: list[tuple[checkpoint.Manifest, dict[str, Any]]] = [
        (MANIFEST, WEIGHTS | {"value.bias": np.array([np.nan], np.float32)}),
        (replace(MANIFEST, evaluation={"gas": float("nan")}), WEIGHTS),
        (replace(MANIFEST, seed="seven"), WEIGHTS),  # type: ignore[arg-type]
    ]
    for manifest, parameters in wrong:
        with pytest.raises(InputError):
            save(tmp_path / "run", manifest, parameters)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", [checkpoint.MANIFEST, checkpoint.WEIGHTS])
def test_a_missing_file_is_refused(name: str, folder: Path) -> None:
    (folder / name).unlink()
    with pytest.raises(InputError, match=f"can't read .*{name}: No such file"):
        load(folder)


@pytest.mark.parametrize("name", [checkpoint.MANIFEST, checkpoint.WEIGHTS])
def test_an_oversized_file_is_refused_before_it_is_read(name: str, folder: Path) -> None:
    with (folder / name).open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(InputError, match=f"{name} is larger than"):
        load(folder)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b'{"format": 1,', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"format": 1, "format": 1}', "a field is repeated"),
        (b'{"format": 1, "rho": NaN}', "NaN is no finite number"),
        (b'{"format": 1, "rho": 1e999}', "1e999 is no finite number"),
        (b"[]", "not a JSON object"),
        (b"{}", "not in format 1"),
        (b'{"format": 2}', "not in format 1"),
        (b'{"format": 1}', "the field 'actions' is missing"),
    ],
)
def test_a_manifest_that_is_no_manifest_is_refused(
    content: bytes, reason: str, folder: Path
) -> None:
    (folder / checkpoint.MANIFEST).write_bytes(content)
    with pytest.raises(InputError, match=f"manifest.json can't be used: .*{reason}") as refusal:
        load(folder)
    assert "\n" not in str(refusal.value)


FIELDS = sorted(json.loads(json_schema.dump(MANIFEST)))


@pytest.mark.parametrize("field", [field for field in FIELDS if field != "format"])
def test_every_field_is_needed(field: str, folder: Path) -> None:
    edit(folder, lambda manifest: manifest.pop(field))
    with pytest.raises(InputError, match=f"the field '{field}' is missing"):
        load(folder)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("wrong", [True, [{}]])
def test_a_field_of_a_wrong_type_is_refused(field: str, wrong: object, folder: Path) -> None:
    edit(folder, lambda manifest: manifest.update({field: wrong}))
    with pytest.raises(InputError, match=field):
        load(folder)


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("colour",), 1, "the field 'colour' is unknown"),
        (("inputs", "colour"), 1, "the field 'inputs.colour' is unknown"),
        (("scenario", "blocks"), 0, "scenario field blocks"),
        (("scenario", "blocks"), 10.5, "scenario.blocks must be a whole number"),
        (("scenario", "detection"), "guess", "scenario.detection must be one of approximate"),
        (("rho",), "low", "rho must be a number"),
        (("rho",), 10**400, "rho must be a number"),
        (("seed",), None, "seed must be a whole number"),
        (("training",), [], "training must be an object"),
        (("architecture", "head"), "twin", "head must be one of plain, dueling"),
        (("architecture", "features"), [16, 0], "at least one unit"),
        (("architecture", "features"), 16, "features must be a list"),
        (("architecture", "inputs"), 13, "does not fit the observations and actions"),
        (("architecture", "outputs"), 24, "does not fit the observations and actions"),
        (("inputs", "masked"), ["mood"], "no signal 'mood'"),
        (("inputs", "frames"), 3, "does not fit the observations and actions"),
        (("observation",), ["reputation"], "other observations"),
        (("actions", "intervals"), [1, 3, 5, 7, 30], "another grid of actions"),
        (("envelope", "mood"), [0, 1], "does not name the signals"),
        (("envelope", "latency"), [0, 0.5, 1], "must be a list of 2"),
        (("envelope", "latency"), [1, 0], "ends before it begins"),
        (("envelope", "latency"), [-1e300, 1e300], "a signal lies between 0 and 1"),
        (("envelope", "latency"), [0, 1.01], "a signal lies between 0 and 1"),
        (("envelope", "latency"), [-0.01, 1], "a signal lies between 0 and 1"),
        (("rho",), 1.5, "rho must lie between 0 and 1"),
        (("dials", 0, "miss_rate"), -1e-9, "impossible figures"),
        (("dials", 0, "gas"), -1, "impossible figures"),
        (("dials",), [{}], r"dials\[0\].dial' is missing"),
        (("default", "rho"), 2, "rho must lie between 0 and 1"),
        (("sha256",), "0" * 64, "its SHA-256 is not"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(
    path: tuple[str | int, ...], value: object, reason: str, folder: Path
) -> None:
    def change(manifest: Any) -> None:
        for key in path[:-1]:
            manifest = manifest[key]
        manifest[path[-1]] = value

    edit(folder, change)
    with pytest.raises(InputError, match=reason) as refusal:
        load(folder)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("field", ["dials", "default"])
def test_dials_of_a_network_that_sees_none_are_refused(field: str) -> None:
    with pytest.raises(InputError, match="sees no dial"):
        replace(PLAIN, **{field: getattr(MANIFEST, field)})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"value.bias": None}, "'value.bias' is missing"),
        ({"extra": np.zeros(1, np.float32)}, "'extra' is no part of the network"),
        ({"value.bias": np.zeros(2, np.float32)}, r"value.bias is not float32 \(1,\)"),
        ({"value.bias": np.zeros(1)}, r"value.bias is not float32 \(1,\)"),
        ({"value.bias": np.array([np.nan], np.float32)}, "value.bias is not finite"),
        ({"value.bias": np.array([-np.inf], np.float32)}, "value.bias is not finite"),
    ],
)
def test_weights_of_another_network_are_refused(
    changes: dict[str, Any], reason: str, folder: Path
) -> None:
    changed = {name: array for name, array in (WEIGHTS | changes).items() if array is not None}
    put_weights(folder, safetensors.numpy.save(changed))
    with pytest.raises(InputError, match=f"policy.safetensors can't be used: .*{reason}"):
        load(folder)


def bfloat(content: bytes) -> bytes:
    """Return weights of half the size in a type that NumPy lacks."""
    header = b'{"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}'
    return len(header).to_bytes(8, "little") + header + content[:2]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:0],
        lambda content: content[:5],
        lambda content: content[:-1],
        lambda content: content + b"\0",
        lambda content: b"\xff" * 8 + content[8:],
        bfloat,
    ],
)
def test_damaged_weights_are_refused_even_with_the_right_hash(
    damage: Callable[[bytes], bytes], folder: Path
) -> None:
    put_weights(folder, damage((folder / checkpoint.WEIGHTS).read_bytes()))
    with pytest.raises(InputError, match="not in the safetensors format"):
        load(folder)


POSITIONS = st.integers(0, 2**20)
CHANGES = st.integers(1, 255)


@given(POSITIONS, CHANGES)
def test_a_changed_byte_in_the_weights_is_refused(
    saved: Path, tmp_path_factory: pytest.TempPathFactory, position: int, change: int
) -> None:
    folder = shutil.copytree(saved, tmp_path_factory.getbasetemp() / "run", dirs_exist_ok=True)
    weights = bytearray((saved / checkpoint.WEIGHTS).read_bytes())
    weights[position % len(weights)] ^= change
    (folder / checkpoint.WEIGHTS).write_bytes(weights)
    with pytest.raises(InputError, match="its SHA-256 is not the one in the manifest"):
        load(folder)


@given(st.integers(0, 1500), CHANGES)
def test_whoever_forges_the_hash_too_gets_sound_weights_or_a_refusal(
    saved: Path, tmp_path_factory: pytest.TempPathFactory, position: int, change: int
) -> None:
    folder = shutil.copytree(saved, tmp_path_factory.getbasetemp() / "run", dirs_exist_ok=True)
    weights = bytearray((saved / checkpoint.WEIGHTS).read_bytes())
    weights[position] ^= change
    put_weights(folder, bytes(weights))
    try:
        parameters = load(folder).parameters
    except InputError:
        return
    assert all(np.isfinite(parameters[name]).all() for name in WEIGHTS)


def test_the_cheapest_dial_within_the_ceilings_is_chosen() -> None:
    dials = (SWIFT, STRICT, CHEAP)
    assert choose_dial(dials, Ceilings(0.21)) == CHEAP.dial
    assert choose_dial(dials, Ceilings(0.19)) == STRICT.dial, "the other has no margin"
    assert choose_dial(dials, Ceilings(0.1, latency=9.1)) == STRICT.dial
    assert choose_dial(dials, Ceilings(0.1, latency=9.0)) == SWIFT.dial


@pytest.mark.parametrize(
    ("ceilings", "reason"),
    [
        (Ceilings(0.01), "a miss rate of 0.01 in validation: the lowest miss rate is 0.03$"),
        (Ceilings(0.05, 8), "the lowest miss rate at that latency is 0.06$"),
        (Ceilings(0.05, 5), "the lowest latency is 6$"),
    ],
)
def test_ceilings_that_no_dial_kept_are_refused_with_what_was_reached(
    ceilings: Ceilings, reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        choose_dial(MANIFEST.dials, ceilings)


def test_without_validation_there_is_nothing_to_choose() -> None:
    with pytest.raises(InputError, match="none was validated"):
        choose_dial((), Ceilings(0.05))


def test_a_policy_is_set_for_the_ceilings_or_else_for_the_default(folder: Path) -> None:
    loaded = load(folder)
    assert loaded.policy().dial == STRICT.dial
    assert loaded.policy(Ceilings(0.3)).dial == CHEAP.dial
    swift = replace(loaded.manifest, default=Default(rho=0.1, latency=7))
    assert replace(loaded, manifest=swift).policy().dial == SWIFT.dial


def test_a_dial_without_a_default_must_be_set(folder: Path) -> None:
    loaded = load(folder)
    with pytest.raises(InputError, match="no default"):
        replace(loaded, manifest=replace(loaded.manifest, default=None)).policy()
