"""The registry: a version decides as it was registered, or is refused in a sentence."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, select, update
from tests.support.checkpoints import ARCHITECTURE, MANIFEST, random_weights

from holdfast.control.policies.active import PolicyLoader, ensure_champion
from holdfast.control.policies.aliases import (
    Aliases,
    Author,
    challenge,
    history,
    promote,
    read_aliases,
    rollback,
    withdraw,
)
from holdfast.control.policies.versions import Registry
from holdfast.errors import HoldfastError, InputError, MalformedError
from holdfast.evidence.leaf import Change, PolicyChange, decode
from holdfast.model.observation import OBSERVATION
from holdfast.model.scenario import DRIFT, PAPER
from holdfast.policy import json_schema
from holdfast.policy.checkpoint import save
from holdfast.policy.serving import load_serving
from holdfast.storage.database import connect, migrate, transaction
from holdfast.storage.schema import leaves, versions

NOW = 1_800_000_000_000
AUTHOR = Author("tester", NOW, "why not")
Row = dict[str, Any]


def aliases(engine: Engine) -> Aliases:
    with transaction(engine) as connection:
        return read_aliases(connection)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tmp_path / "run", MANIFEST, random_weights(ARCHITECTURE))
    return tmp_path / "run"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["drqn-cmdp-plus", "drqn-cmdp-plus:rho=0.1", "belief:rho=0.1", "constant:7,0.10"]
)
def test_a_version_comes_back_as_it_was_registered(engine: Engine, name: str) -> None:
    entered = Registry(engine).register(name, PAPER, NOW)
    assert Registry(engine).register(name, PAPER, NOW + 1).version == entered.version
    (listed,) = Registry(engine).listing()
    assert (listed.version, listed.name, listed.registered) == (entered.version, name, NOW)
    found = Registry(engine).serving(entered.version)
    assert (found.name, found.version, found.rho) == (name, entered.version, entered.rho)
    seen = np.random.default_rng(1).random((50, len(OBSERVATION)))
    assert (found.in_envelope(seen) == entered.in_envelope(seen)).all()
    acted = [each.act(each.fresh_rows(50), seen)[0] for each in (found, entered)]
    assert (acted[0] == acted[1]).all()


@pytest.mark.slow
def test_a_checkpoint_needs_its_folder_no_more(engine: Engine, folder: Path) -> None:
    name = f"{folder}:rho=0.2"
    version = Registry(engine).register(name, PAPER, NOW).version
    for file in folder.iterdir():
        file.unlink()
    assert Registry(engine).serving(version).rho == 0.2


@pytest.mark.slow
def test_a_version_has_a_name_that_simulations_find_it_by(
    engine: Engine, folder: Path, tmp_path: Path
) -> None:
    registry, home = Registry(engine), tmp_path / "home"
    for name in ("drqn-cmdp-plus:rho=0.1", "constant:7,0.10", f"{folder}:rho=0.2"):
        version = registry.register(name, PAPER, NOW).version
        assert registry.named(version, home, PAPER) == name
    assert not home.exists()
    shutil.rmtree(folder)
    kept = home / "policies" / version[:12]
    for spoilt in (False, True):
        if spoilt:
            (kept / "weights.safetensors").write_bytes(b"")
        name = registry.named(version, home, PAPER)
        assert name == f"{kept}:rho=0.2"
        assert load_serving(name, PAPER).version == version
    retrained = registry.register(str(kept), PAPER, NOW, known_as="retrained-1").version
    assert load_serving(registry.named(retrained, home, PAPER), PAPER).version == retrained


@pytest.mark.slow
def test_a_ceiling_is_that_of_the_options_or_the_manifest() -> None:
    for name, rho in (
        ("drqn-cmdp-plus", 0.05),
        ("drqn-cmdp-plus:rho=0.1", 0.1),
        ("drqn-cmdp", 0.05),
        ("dqn", None),
        ("belief", 0.05),
        ("belief:rho=0.2", 0.2),
        ("fixed-high", None),
    ):
        assert load_serving(name, PAPER).rho == rho


def flip(row: Row) -> Row:
    weights = bytearray(row["weights"])
    weights[-1] ^= 1
    return {"weights": bytes(weights)}


def edit(**changes: Any) -> Callable[[Row], Row]:
    def edited(row: Row) -> Row:
        return {"manifest": json.dumps(json.loads(row["manifest"]) | changes).encode()}

    return edited


def vouched(row: Row) -> Row:
    """Return other weights, with a manifest that vouches for them."""
    changed = flip(row)["weights"]
    return {"weights": changed} | edit(sha256=hashlib.sha256(changed).hexdigest())(row)


def resized(row: Row) -> Row:
    manifest = json.loads(row["manifest"])
    manifest["architecture"]["recurrent"] += 1
    return {"manifest": json.dumps(manifest).encode()}


TAMPERED: list[tuple[str, Callable[[Row], Row], str]] = [
    ("drqn-cmdp-plus", flip, "policy.safetensors can't be used: its SHA-256"),
    ("drqn-cmdp-plus", vouched, "has the hash"),
    ("drqn-cmdp-plus", edit(seed=99), "has the hash"),
    ("drqn-cmdp-plus", edit(sha256="0" * 64), "its SHA-256 is not the one in the manifest"),
    ("drqn-cmdp-plus", edit(format=2), "not in format 1"),
    ("drqn-cmdp-plus", edit(observation=["reputation"]), "expects other observations"),
    ("drqn-cmdp-plus", edit(extra=1), "'extra' is unknown"),
    ("drqn-cmdp-plus", resized, "is not float32"),
    ("drqn-cmdp-plus", lambda _row: {"manifest": b"{"}, "it is not JSON"),
    ("drqn-cmdp-plus", lambda row: {"weights": row["weights"][:-4]}, "its SHA-256"),
    ("drqn-cmdp-plus", lambda _row: {"options": "rho=0.2"}, "has the hash"),
    ("drqn-cmdp-plus", lambda _row: {"weights": None}, "are gone"),
    ("drqn-cmdp-plus", lambda _row: {"weights": None, "manifest": None}, "are gone"),
    ("belief:rho=0.1", lambda _row: {"scenario": json_schema.dump(DRIFT)}, "has the hash"),
    ("constant:7,0.10", lambda _row: {"name": "constant:14,0.01"}, "has the hash"),
    ("fixed-high", lambda _row: {"name": "nobody"}, "there is no policy"),
    ("fixed-high", lambda _row: {"scenario": b"[]"}, "not a JSON object"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "change", "told"), TAMPERED)
def test_a_tampered_version_is_refused_and_never_decides(
    tmp_path: Path, name: str, change: Callable[[Row], Row], told: str
) -> None:
    engine = connect(str(tmp_path / "holdfast.db"))
    migrate(engine)
    version = Registry(engine).register(name, PAPER, NOW).version
    with transaction(engine) as connection:
        row = dict(connection.execute(select(versions)).one()._mapping)
        connection.execute(update(versions).values(change(row)))
    with pytest.raises(MalformedError, match=told) as refused:
        Registry(engine).serving(version)
    assert version[:12] in str(refused.value)
    assert "\n" not in str(refused.value)
    with pytest.raises(MalformedError):
        Registry(engine).register(name, PAPER, NOW)
    promote(engine, Aliases(), version, AUTHOR)
    with pytest.raises(HoldfastError, match="is refused"):
        PolicyLoader(engine).now()
    engine.dispose()


@pytest.mark.slow
def test_a_tampered_folder_is_not_registered(engine: Engine, folder: Path) -> None:
    weights = folder / "policy.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x07")
    with pytest.raises(MalformedError, match="its SHA-256"):
        Registry(engine).register(str(folder), PAPER, NOW)
    assert Registry(engine).listing() == []


@pytest.mark.slow
def test_a_version_is_found_by_its_alias_or_the_beginning_of_its_hash(engine: Engine) -> None:
    registry = Registry(engine)
    ensure_champion(engine, "fixed-high", PAPER, NOW)
    (version,) = (each.version for each in registry.listing())
    known = aliases(engine)
    assert registry.find("champion", known) == version
    assert registry.find(version[:4].upper(), known) == version
    for text, told in (
        ("challenger", "there is no challenger"),
        ("previous", "there is no previous"),
        (version[:3], "there is no version"),
        ("zzzz", "there is no version"),
    ):
        with pytest.raises(InputError, match=told):
            registry.find(text, known)


@pytest.mark.slow
def test_a_rollback_goes_back_step_by_step_and_never_to_what_it_took_back(engine: Engine) -> None:
    registry = Registry(engine)
    names = ("fixed-high", "fixed-low", "heuristic")
    first, second, third = (registry.register(name, PAPER, NOW).version for name in names)
    known = ensure_champion(engine, "fixed-high", PAPER, NOW)
    assert known == ensure_champion(engine, "heuristic", PAPER, NOW), "the first is the first"
    with pytest.raises(InputError, match="nothing to roll back to"):
        rollback(engine, known, AUTHOR)
    for version in (second, third):
        known = promote(engine, known, version, AUTHOR)
    assert (known.champion, known.previous) == (third, second)
    known = rollback(engine, known, AUTHOR)
    assert (known.champion, known.previous) == (second, first)
    known = rollback(engine, known, AUTHOR)
    assert (known.champion, known.previous) == (first, None)
    assert known == aliases(engine)
    with transaction(engine) as connection:
        told = [(entry.change, entry.name) for entry in history(connection, 10)]
    assert told == [
        ("rolled-back", "fixed-high"),
        ("rolled-back", "fixed-low"),
        ("promoted", "heuristic"),
        ("promoted", "fixed-low"),
        ("promoted", "fixed-high"),
    ]


@pytest.mark.slow
def test_who_was_the_challenger_is_so_again_after_a_rollback(engine: Engine) -> None:
    registry = Registry(engine)
    known = ensure_champion(engine, "fixed-high", PAPER, NOW)
    old = known.champion
    new = registry.register("heuristic", PAPER, NOW).version
    known = challenge(engine, known, new, AUTHOR)
    assert (known.challenger, known.shadows) == (new, (new,))
    known = promote(engine, known, new, AUTHOR)
    assert (known.champion, known.challenger, known.shadows) == (new, None, (old,))
    known = rollback(engine, known, AUTHOR)
    assert (known.champion, known.challenger, known.shadows) == (old, new, (new,))
    known = withdraw(engine, known, AUTHOR)
    assert (known.challenger, known.shadows) == (None, ())
    with pytest.raises(InputError, match="no challenger"):
        withdraw(engine, known, AUTHOR)
    for version in (old, new):
        assert version is not None
    with pytest.raises(InputError, match="is the champion already"):
        challenge(engine, known, str(old), AUTHOR)


@pytest.mark.slow
def test_of_two_who_change_at_once_one_is_told(engine: Engine) -> None:
    known = ensure_champion(engine, "fixed-high", PAPER, NOW)
    version = Registry(engine).register("heuristic", PAPER, NOW).version
    promote(engine, known, version, AUTHOR)
    with pytest.raises(InputError, match="somebody has changed the policies meanwhile"):
        challenge(engine, known, version, AUTHOR)
    with transaction(engine) as connection:
        told = [decode(bytes(body)) for body in connection.execute(select(leaves.c.body)).scalars()]
    assert [each.change for each in told if isinstance(each, PolicyChange)] == [Change.PROMOTED] * 2


@pytest.mark.slow
def test_every_change_is_a_leaf_even_if_the_clock_was_set_back(engine: Engine) -> None:
    known = ensure_champion(engine, "fixed-high", PAPER, NOW)
    version = Registry(engine).register("heuristic", PAPER, NOW).version
    known = challenge(engine, known, version, Author("me", NOW + 5, "try it\nnow"))
    known = withdraw(engine, known, Author("me", NOW + 2))
    with transaction(engine) as connection:
        rows = connection.execute(select(leaves.c.body).order_by(leaves.c.id)).scalars()
        first, named, gone = (decode(bytes(body)) for body in rows)
    assert isinstance(first, PolicyChange)
    assert isinstance(named, PolicyChange)
    assert isinstance(gone, PolicyChange)
    assert (first.change, first.previous, first.by) == (Change.PROMOTED, None, "holdfast")
    assert (named.policy.hash.hex(), named.reason, named.at) == (version, "try it now", NOW + 5)
    assert (gone.change, gone.policy, gone.at) == (Change.WITHDRAWN, named.policy, NOW + 5)


@given(st.lists(st.tuples(st.sampled_from(Change), st.sampled_from("abc")), max_size=30))
def test_the_last_changes_read_alone_lead_where_all_of_them_lead(
    changes: list[tuple[Change, str]],
) -> None:
    found = Aliases()
    for change, version in changes:
        found = found.after(change, version)
        assert found.champion not in found.shadows
        assert found.challenger is None or found.challenger != found.champion
        assert len(set(found.shadows)) == len(found.shadows) <= 2
    assert found.changes == len(changes)
