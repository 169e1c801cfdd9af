"""Objects whose names are their hashes: damage is found and named, an outage is no damage."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest
from tests.support import parts
from tests.support.checks import check, open_at, sample_all, sample_of

from holdfast.checkers.hash_names import NamesChecker
from holdfast.checkers.interface import Defect, Finding, Report, Sample
from holdfast.errors import InputError, UnreachableError

CONTENTS = [b"", b"a", bytes(range(256)) * 5000, os.urandom(20_000), os.urandom(3 << 20)]
LAYOUTS: dict[str, tuple[str, Callable[[str], str], list[str]]] = {
    "restic": ("pack", lambda name: f"data/{name[:2]}/{name}", ["config", "keys/ab", "locks/cd"]),
    "lfs": ("object", lambda name: f"objects/{name[:2]}/{name[2:4]}/{name}", ["tmp/x", "cache/y"]),
    "oci": ("blob", lambda name: f"blobs/sha256/{name}", ["oci-layout", "index.json"]),
    "bare": ("object", lambda name: f"{name[:1]}/{name}", []),
}


def store(address: str, layout: str) -> list[str]:
    """Fill a store; return the names of its objects."""
    _, path, others = LAYOUTS[layout]
    system, root = fsspec.url_to_fs(address)
    files = {path(hashlib.sha256(content).hexdigest()): content for content in CONTENTS}
    for name, content in [*files.items(), *((name, b"other") for name in others)]:
        system.makedirs(f"{root}/{name}".rpartition("/")[0], exist_ok=True)
        system.pipe_file(f"{root}/{name}", content)
    return sorted(files)


def open_names(address: str | Path, folder: Path, **options: str) -> NamesChecker:
    checker = open_at("names", address, folder, **{"names": "sha256", **options})
    assert isinstance(checker, NamesChecker)
    return checker


def run(checker: NamesChecker, sample: Sample | None = None) -> Report:
    return checker.run(sample or sample_all(checker), lambda _done, _total: None)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    store(str(path), "restic")
    return path


def largest(data: Path) -> Path:
    return max((data / "data").rglob("*"), key=lambda path: path.is_file() and path.stat().st_size)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "kind", ["folder", "file", "memory", pytest.param("s3", marks=pytest.mark.slow)]
)
def test_every_object_is_a_group_and_all_are_verified(
    layout: str, kind: str, folder: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = {"folder": f"{tmp_path}/data", "file": f"file://{tmp_path}/data/"}.get(kind)
    if kind == "memory":
        address = f"memory://{tmp_path.name}"
    elif kind == "s3":
        address = f"{request.getfixturevalue('bucket')}/{tmp_path.name}"
    assert address is not None
    names = store(address, layout)
    checker = open_names(address, folder)
    extent = checker.extent()
    assert extent.unit == LAYOUTS[layout][0]
    assert [group.name for group in extent.groups] == names
    total = sum(map(len, CONTENTS))
    assert (extent.units, extent.bytes, extent.vanished) == (len(names), total, ())
    report = run(checker)
    assert (report.finding, report.reason, report.words) == (Finding.INTACT, "", "")
    assert (report.checked, report.units, sorted(report.verified)) == (5, 5, names)
    assert report.read_bytes == total
    assert report.requests >= len(names)


def test_only_the_sample_is_read(data: Path, folder: Path) -> None:
    checker = open_names(data, folder)
    group = max(checker.extent().groups, key=lambda group: group.bytes)
    report = run(checker, sample_of(group.name))
    assert (report.checked, report.verified) == (1, (group.name,))
    assert report.read_bytes == group.bytes


def test_a_sample_that_leaves_the_choice_is_drawn_by_its_seed(data: Path, folder: Path) -> None:
    checker = open_names(data, folder)
    drawn = [sorted(run(checker, Sample(seed, 2, (), 0)).verified) for seed in (b"a", b"a", b"c")]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(drawn[0]) == 2


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES: dict[str, tuple[Callable[[Path], object], Defect]] = {
    "flipped": (flip, Defect.CHANGED),
    "truncated": (lambda path: os.truncate(path, 1000), Defect.CHANGED),
    "emptied": (lambda path: os.truncate(path, 0), Defect.TRUNCATED),
    "zeroed": (lambda path: path.write_bytes(bytes(path.stat().st_size)), Defect.CHANGED),
    "replaced": (lambda path: path.write_bytes(b"something else"), Defect.CHANGED),
    "longer": (lambda path: path.write_bytes(path.read_bytes() + b"x"), Defect.CHANGED),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found_and_named(data: Path, folder: Path, damage: str) -> None:
    act, defect = DAMAGES[damage]
    checker, path = open_names(data, folder), largest(data)
    act(path)
    report = run(checker)
    (unit,) = report.damaged
    name = str(path.relative_to(data))
    assert (unit.name, unit.group, unit.defect) == (name, name, defect)
    assert (report.finding, report.reason) == (Finding.DAMAGED, "1 pack is damaged")
    assert "the sha256 of its" in unit.detail
    assert len(report.verified) == 4
    assert name not in report.verified


def test_what_the_storage_can_not_read_is_damage_while_it_reads_the_rest(
    data: Path, folder: Path
) -> None:
    """The memory of a process at 0 gives the error that a bad sector gives."""
    name = hashlib.sha256(b"lost").hexdigest()
    (data / "data" / name).symlink_to("/proc/self/mem")
    report = run(open_names(data, folder))
    (unit,) = report.damaged
    assert (report.finding, unit.defect) == (Finding.DAMAGED, Defect.UNREADABLE)
    assert "Input/output error" in unit.detail
    alone = run(open_names(data, folder), sample_of(f"data/{name}"))
    assert (alone.finding, alone.checked) == (Finding.DAMAGED, 1), "others can be read"
    for path in [path for path in data.rglob("*") if path.is_file() and not path.is_symlink()]:
        path.unlink()
        path.symlink_to("/proc/self/mem")
    alone = run(open_names(data, folder), sample_of(f"data/{name}"))
    assert alone.finding is Finding.UNREACHABLE, "nothing says that anything can be read"
    assert (alone.checked, alone.damaged) == (0, ())


def test_an_object_that_was_deleted_during_the_check_is_no_damage(data: Path, folder: Path) -> None:
    checker = open_names(data, folder)
    sample = sample_all(checker)
    largest(data).unlink()
    report = run(checker, sample)
    assert (report.finding, report.checked, report.damaged) == (Finding.INTACT, 4, ())
    assert report.words == "of the sample 1 are gone: deleted or lost, names can't say which"
    assert checker.extent().vanished == ()


def test_where_nothing_is_ever_deleted_what_is_gone_is_missing(data: Path, folder: Path) -> None:
    checker = open_names(data, folder, deletions="never")
    sample = sample_all(checker)
    path = largest(data)
    name, content = str(path.relative_to(data)), path.read_bytes()
    path.unlink()
    report = run(checker, sample)
    assert report.finding is Finding.DAMAGED
    assert [(unit.name, unit.defect) for unit in report.damaged] == [(name, Defect.MISSING)]
    assert (report.checked, report.units) == (5, 4)
    for _ in range(2):
        assert checker.extent().vanished == (name,), "it is not forgotten"
    path.write_bytes(content)
    assert checker.extent().vanished == ()
    assert run(checker).finding is Finding.INTACT


def test_names_that_are_no_unicode_are_remembered(data: Path, folder: Path) -> None:
    checker = open_names(data, folder, deletions="never")
    path = data / "data" / os.fsdecode(b"\xff") / hashlib.sha256(b"new").hexdigest()
    path.parent.mkdir()
    path.write_bytes(b"new")
    assert checker.extent().vanished == ()
    assert run(checker).finding is Finding.INTACT
    path.unlink()
    assert checker.extent().vanished == (str(path.relative_to(data)),)


@pytest.mark.slow
@pytest.mark.parametrize("empty", [False, True])
def test_storage_that_is_away_is_no_damage(
    data: Path, folder: Path, tmp_path: Path, empty: bool
) -> None:
    """A disk that is not mounted leaves an empty folder, or none."""
    checker = open_names(data, folder, deletions="never")
    sample = sample_all(checker)
    data.rename(tmp_path / "unmounted")
    if empty:
        data.mkdir()
    with pytest.raises(UnreachableError, match="there is nothing at" if empty else "can't list"):
        checker.extent()
    report = check(checker, sample)
    assert report.finding is Finding.UNREACHABLE
    assert (report.checked, report.damaged) == (0, ())
    (data.rmdir if empty else lambda: None)()
    (tmp_path / "unmounted").rename(data)
    assert checker.extent().vanished == ()


def test_files_that_are_being_written_are_left_out(data: Path, folder: Path) -> None:
    name = hashlib.sha256(b"new").hexdigest()
    for unfinished in (f"{name}-tmp-123", ".hidden", f"{name}.partial"):
        (data / "data" / unfinished).touch()
    assert open_names(data, folder).extent().units == len(CONTENTS)


def test_names_that_are_no_hashes_are_refused(folder: Path, tmp_path: Path) -> None:
    store(f"{tmp_path}/bare", "bare")
    (tmp_path / "bare" / "holiday.jpg").touch()
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "holiday.jpg").touch()
    for address in (tmp_path / "bare", tmp_path / "photos"):
        with pytest.raises(InputError, match=r"SHA-256: holiday\.jpg is no hash\. Give the"):
            open_names(address, folder).extent()


def test_a_repository_without_packs_is_refused(folder: Path, tmp_path: Path) -> None:
    for name in ("config", "keys/ab", "data"):
        (tmp_path / "empty" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "empty" / name).touch() if name != "data" else None
    with pytest.raises(UnreachableError, match="holds no pack yet"):
        open_names(tmp_path / "empty", folder).extent()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/no/such/folder", "can't list /no/such/folder"),
        ("memory://nothing", "there is nothing at memory://nothing"),
    ],
)
def test_an_address_where_nothing_is_is_refused(folder: Path, address: str, said: str) -> None:
    with pytest.raises(UnreachableError, match=said):
        open_names(address, folder).extent()


@pytest.mark.slow
def test_a_bucket_that_does_not_exist_is_refused(folder: Path, bucket: str) -> None:
    with pytest.raises(UnreachableError, match="nobody/prefix: there is no such place"):
        open_names(f"{bucket}-of-nobody/prefix", folder).extent()


def test_an_address_of_no_known_protocol_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="can't use gopher://there"):
        open_names("gopher://there", folder).extent()


@pytest.mark.parametrize(
    ("options", "said"),
    [({"names": "md5"}, "the names must be sha256"), ({"deletions": "some"}, "allowed or never")],
)
def test_options_that_mean_nothing_are_refused(
    folder: Path, options: dict[str, str], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        open_names("here", folder, **options)


@pytest.mark.slow
def test_the_packs_of_a_real_repository_are_checked_without_its_password(
    folder: Path, tmp_path: Path
) -> None:
    restic = [parts.program("restic"), "-q", "-r", str(tmp_path / "repo")]
    environment = {**os.environ, "RESTIC_PASSWORD": "x", "RESTIC_CACHE_DIR": f"{tmp_path}/cache"}
    (tmp_path / "source").mkdir()
    for number in range(3):
        (tmp_path / "source" / str(number)).write_bytes(os.urandom(1 << 20))
    for arguments in (["init"], ["backup", str(tmp_path / "source")]):
        subprocess.run([*restic, *arguments], check=True, env=environment)
    checker = open_names(tmp_path / "repo", folder)
    packs = [path for path in (tmp_path / "repo" / "data").rglob("*") if path.is_file()]
    report = check(checker)
    assert (report.finding, report.checked) == (Finding.INTACT, len(packs))
    packs[0].chmod(0o600)
    flip(packs[0])
    report = check(checker)
    assert [unit.name for unit in report.damaged] == [f"data/{packs[0].name[:2]}/{packs[0].name}"]
    shutil.rmtree(tmp_path / "repo" / "index")
    assert check(checker).finding is Finding.DAMAGED
