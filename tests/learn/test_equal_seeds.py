"""Equal seeds give equal weights, whatever the cores, the pinning and the number of jobs."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.learn.equal_seeds import weights_digest
from tests.learn.worlds import run_of

from holdfast.executor import LocalExecutor
from holdfast.learn import provenance, threads
from holdfast.learn.training import MADE_BY, train
from holdfast.policy import checkpoint, json_schema
from holdfast.processes import cores

SCRIPT = ("-m", "tests.learn.equal_seeds")
LIMITS = ("OPENBLAS_NUM_THREADS", "XLA_FLAGS", "NPROC")


def trained_alone(method: str, core: int | None, **variables: str) -> str:
    """Train in a process of its own, with no limits but these, on one core or on all."""
    environment = {name: value for name, value in os.environ.items() if name not in LIMITS}
    environment |= {"PYTHONPATH": os.pathsep.join(sys.path), **variables}
    words = [method] if core is None else [method, str(core)]
    done = subprocess.run(
        [sys.executable, *SCRIPT, *words],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["drqn-cmdp", "ppo"])
def test_equal_seeds_give_equal_weights_pinned_unpinned_and_side_by_side(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = trained_alone(method, cores()[-1])
    assert trained_alone(method, None) == pinned
    assert trained_alone(method, None, NPROC="8", XLA_FLAGS="--xla_cpu_multi_thread_eigen") == (
        pinned
    )
    for name in LIMITS:  # the children would inherit those of the tests
        monkeypatch.delenv(name, raising=False)
    with LocalExecutor(2) as executor:
        side_by_side = [executor.submit(weights_digest, method) for _ in range(2)]
        assert [future.result() for future in side_by_side] == [pinned, pinned]


def test_blas_has_one_thread_in_a_training_and_its_own_number_again_afterwards() -> None:
    np.ones((2, 2)) @ np.ones((2, 2))
    libraries = threads._openblas()
    assert libraries, "the wheel of NumPy for Linux has OpenBLAS"
    before = [library.get() for library in libraries]
    try:
        for library in libraries:
            library.set(2)
        with threads.one_blas_thread():
            assert {library.get() for library in libraries} == {1}
        assert {library.get() for library in libraries} == {2}
    finally:
        for library, count in zip(libraries, before, strict=True):
            library.set(count)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", "--xla_cpu_multi_thread_eigen=false"),
        (
            "--xla_cpu_multi_thread_eigen=true --xla_a=1",
            "--xla_a=1 --xla_cpu_multi_thread_eigen=false",
        ),
        ("flags.txt", "flags.txt"),
    ],
)
def test_other_flags_of_xla_are_kept(
    given: str, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_FLAGS", given)
    monkeypatch.setenv("NPROC", "8")
    threads.limit_xla()
    assert (os.environ["XLA_FLAGS"], os.environ["NPROC"]) == (kept, "1")


@pytest.mark.usefixtures("brief")
def test_a_run_and_its_checkpoint_tell_what_computed_them(tmp_path: Path) -> None:
    train(run_of("dqn", units=1), tmp_path)
    recorded = json_schema.parse((tmp_path / "run.json").read_bytes())
    manifest = checkpoint.load(tmp_path).manifest
    assert recorded[MADE_BY] == manifest.training[MADE_BY] == [provenance.provenance()]
    (made_by,) = recorded[MADE_BY]
    assert made_by.keys() == {
        *("holdfast", "commit", "python", "numpy", "jax", "jaxlib", "processor"),
    }
    assert all(made_by[name] for name in made_by if name != "commit")


def test_the_commit_is_that_of_the_source_or_none(tmp_path: Path) -> None:
    provenance.PACKAGE, package = tmp_path, provenance.PACKAGE
    try:
        assert provenance._git("rev-parse", "HEAD") is None
        assert provenance._commit() == provenance._installed_commit()
        commands = (
            ("init", "-q"),
            ("add", "."),
            ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "first"),
        )
        (tmp_path / "__init__.py").write_text("")
        for words in commands:
            subprocess.run(["git", *words], cwd=tmp_path, check=True)  # noqa: S607
        commit = provenance._commit()
        assert commit is not None
        assert len(commit) == 40
        (tmp_path / "__init__.py").write_text("x = 1\n")
        assert provenance._commit() == f"{commit}+changes"
    finally:
        provenance.PACKAGE = package
