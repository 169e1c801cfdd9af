"""restic's own check, on real repositories with real damage, and in the midst of other work."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support import parts
from tests.support.checks import sample_all, sample_of, wait_for
from tests.support.processes import running
from tests.support.rclone_server import serving
from tests.support.restic_repositories import PASSWORD, ResticRepository, flip, make_repository

from holdfast.checkers import restic_check, restic_repository
from holdfast.checkers.interface import Defect, Finding, Place, Report, Sample
from holdfast.checkers.restic import ResticChecker
from holdfast.errors import InputError, UnreachableError
from holdfast.testing import check_auditor

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> ResticRepository:
    parts.program("restic")
    return make_repository(tmp_path_factory.mktemp("restic"))


@pytest.fixture
def repository(template: ResticRepository, tmp_path: Path) -> ResticRepository:
    return template.copy(tmp_path)


def open_restic(
    repository: ResticRepository, folder: Path, address: str | None = None, **options: str
) -> ResticChecker:
    place = Place(
        address or str(repository.path),
        {
            **repository.options,
            **{name.replace("_", "-"): value for name, value in options.items()},
        },
        folder,
    )
    return ResticChecker(place)


def run(checker: ResticChecker, sample: Sample | None = None) -> Report:
    checker.scratch.mkdir(parents=True, exist_ok=True)
    return checker.run(sample or sample_all(checker), lambda _done, _total: None)


def group_of(pack: Path) -> str:
    return pack.name[:2]


def other_group(repository: ResticRepository, pack: Path) -> str:
    """Return a group that holds data, none of them in this pack."""
    return next(group_of(one) for one in repository.packs() if group_of(one) != group_of(pack))


def test_the_extent_counts_the_packs_and_bytes_of_each_first_byte(
    repository: ResticRepository, folder: Path
) -> None:
    extent = open_restic(repository, folder).extent()
    packs = repository.packs()
    assert extent.unit == "pack"
    assert extent.tool.startswith("restic ")
    assert extent.units == sum(group.units for group in extent.groups) == len(packs)
    assert {group.name for group in extent.groups} == {group_of(pack) for pack in packs}
    assert extent.bytes == sum(pack.stat().st_size for pack in packs)


def test_an_intact_repository_is_verified_in_one_call(
    repository: ResticRepository, folder: Path
) -> None:
    checker = open_restic(repository, folder)
    progress: list[tuple[int, int]] = []
    sample = sample_all(checker)
    report = checker.run(sample, lambda done, total: progress.append((done, total)))
    assert (report.finding, report.reason) == (Finding.INTACT, "")
    assert set(report.verified) == set(sample.groups)
    assert report.checked == report.units == report.requests == len(repository.packs())
    assert report.read_bytes == sum(pack.stat().st_size for pack in repository.packs())
    assert progress[-1] == (report.checked, report.checked)
    assert "in 1 groups" in report.words


def test_only_the_groups_of_the_sample_are_read(repository: ResticRepository, folder: Path) -> None:
    checker = open_restic(repository, folder)
    groups = sorted(group_of(pack) for pack in repository.packs())[1:4:2]
    sample_all(checker)
    report = run(checker, sample_of(*groups))
    assert report.finding is Finding.INTACT
    assert report.verified == tuple(groups)
    assert report.checked < len(repository.packs())


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def replace(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def truncate(path: Path) -> None:
    os.truncate(path, 1000)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


HARMS: list[tuple[Callable[[Path], None], Defect]] = [
    (flip, Defect.CHANGED),
    (zero, Defect.CHANGED),
    (replace, Defect.CHANGED),
    (lengthen, Defect.CHANGED),
    (truncate, Defect.TRUNCATED),
    (empty, Defect.TRUNCATED),
    (Path.unlink, Defect.MISSING),
]


def test_damaged_packs_are_named_at_each_look_and_all_others_are_verified(
    repository: ResticRepository, folder: Path
) -> None:
    checker, packs = open_restic(repository, folder), repository.packs()
    everything = sample_all(checker).groups
    expected = {}
    for pack, (harm, defect) in zip(packs, HARMS, strict=False):
        harm(pack)
        expected[pack.name] = (pack.name, defect, group_of(pack))
    # restic 0.14 tries to read each truncated pack for 43 seconds; its structure shows them, too.
    slow = {group_of(pack) for pack in packs[4:6]}
    groups = [name for name in everything if name not in slow]
    report = run(checker, sample_of(*groups))
    assert report.finding is Finding.DAMAGED
    assert {(unit.name, unit.defect, unit.group) for unit in report.damaged} == {*expected.values()}
    damaged = {unit.group for unit in report.damaged}
    assert set(report.verified) == set(groups) - damaged
    flipped = packs[0].name
    second = run(checker, sample_of(flipped[:2]))
    assert expected[flipped] in {(unit.name, unit.defect, unit.group) for unit in second.damaged}


@pytest.mark.parametrize("harm", [truncate, Path.unlink])
def test_what_the_structure_shows_is_found_outside_of_the_sample(
    repository: ResticRepository, folder: Path, harm: Callable[[Path], None]
) -> None:
    checker, pack = open_restic(repository, folder), repository.data_pack()
    checker.extent()
    harm(pack)
    group = other_group(repository, pack)
    report = run(checker, sample_of(group))
    assert [unit.name for unit in report.damaged] == [pack.name]
    assert report.verified == (group,)


def test_a_damaged_tree_is_named_by_its_pack(repository: ResticRepository, folder: Path) -> None:
    checker, pack = open_restic(repository, folder), repository.tree_pack()
    checker.extent()
    flip(pack)
    report = run(checker, sample_of(group_of(repository.data_pack())))
    assert [(unit.name, unit.defect) for unit in report.damaged] == [(pack.name, Defect.CHANGED)]


@pytest.mark.parametrize("part", ["index", "snapshots"])
def test_a_damaged_file_beside_the_packs_is_named(
    repository: ResticRepository, folder: Path, part: str
) -> None:
    checker = open_restic(repository, folder)
    sample = sample_all(checker)
    damaged = repository.file_of(part)
    flip(damaged)
    report = run(checker, sample)
    (unit,) = report.damaged
    assert unit.name == f"{part.removesuffix('s')} {damaged.name[:10]}"
    assert unit.group not in report.verified
    assert run(checker, sample_of(unit.group)).damaged[0].name == unit.name


def test_a_lost_index_is_damage_that_a_new_index_heals(
    repository: ResticRepository, folder: Path
) -> None:
    checker = open_restic(repository, folder)
    sample = sample_all(checker)
    repository.file_of("index").unlink()
    report = run(checker, sample)
    assert report.finding is Finding.DAMAGED
    assert {unit.defect for unit in report.damaged} == {Defect.MISSING}
    checker.repair(checker.locate(report))
    assert run(checker, sample).finding is Finding.INTACT


def test_a_damaged_config_is_damage(repository: ResticRepository, folder: Path) -> None:
    checker = open_restic(repository, folder)
    before = checker.extent()
    flip(repository.path / "config", 50)
    assert checker.extent() == before
    report = run(checker)
    assert [unit.name for unit in report.damaged] == ["config"]


def test_that_all_packs_are_gone_is_found(
    repository: ResticRepository, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checker = open_restic(repository, folder)
    before = checker.extent()
    for pack in repository.packs():
        pack.unlink()
    assert checker.extent() == before
    monkeypatch.setattr(restic_check, "TREE_SECONDS", 0.5)
    report = run(checker, sample_of(before.groups[0].name))
    assert report.finding is Finding.DAMAGED
    assert {unit.defect for unit in report.damaged} == {Defect.MISSING}
    assert len(report.damaged) == before.units


def test_a_call_that_read_nothing_is_no_pass(repository: ResticRepository, folder: Path) -> None:
    checker = open_restic(repository, folder)
    taken = {group.name for group in checker.extent().groups}
    vacant = next(name for name in (f"{byte:02x}" for byte in range(256)) if name not in taken)
    report = run(checker, sample_of(vacant))
    assert (report.finding, report.checked, report.verified) == (Finding.UNKNOWN, 0, ())
    assert "nothing was read" in report.reason


def test_a_pack_that_no_index_lists_is_neither_read_nor_damage(
    repository: ResticRepository, folder: Path
) -> None:
    checker = open_restic(repository, folder)
    packs = repository.packs()
    taken = {group_of(pack) for pack in packs}
    group = next(name for name in (f"{byte:02x}" for byte in range(256)) if name not in taken)
    orphan = repository.path / "data" / group / (group + "0" * 62)
    orphan.parent.mkdir(exist_ok=True)
    orphan.write_bytes(b"left by a backup that was interrupted")
    assert group in {one.name for one in checker.extent().groups}
    assert run(checker, sample_of(group)).finding is Finding.UNKNOWN
    report = run(checker)
    assert report.finding is Finding.INTACT
    assert report.checked == len(packs)


def test_a_wrong_password_is_a_mistake_at_first_and_never_damage(
    repository: ResticRepository, folder: Path, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong\n")
    with pytest.raises(InputError, match=r"opens no key.*password-file"):
        open_restic(repository, folder, password_file=str(wrong)).extent()
    sample = sample_all(open_restic(repository, folder))
    report = run(open_restic(repository, folder, password_file=str(wrong)), sample)
    assert (report.finding, report.checked) == (Finding.UNREACHABLE, 0)
    assert "opens no key" in report.reason


def test_a_repository_that_is_not_there_is_a_mistake_at_first_and_an_outage_later(
    repository: ResticRepository, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"no restic repository at.*correct the address"):
        open_restic(repository, folder, str(tmp_path / "elsewhere")).extent()
    checker = open_restic(repository, folder)
    sample = sample_all(checker)
    repository.path.rename(tmp_path / "unmounted")
    with pytest.raises(UnreachableError, match="is it mounted"):
        checker.extent()
    assert run(checker, sample).finding is Finding.UNREACHABLE


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"password_file": ""}, "restic needs a password"),
        ({"password_file": "/nonexistent"}, "can't read the password-file"),
        ({"password_file": "relative"}, "give the whole path"),
        ({"password_env": "NO_SUCH"}, "not both"),
        ({"password_file": "", "password_env": "NO_SUCH"}, "NO_SUCH .* is not set"),
        ({"lock": "perhaps"}, "yes or no"),
        ({"pasword": "x"}, "no option 'pasword'"),
    ],
)
def test_options_that_can_not_be_used_are_refused_with_their_cure(
    repository: ResticRepository, folder: Path, options: dict[str, str], reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        open_restic(repository, folder, **options)


@pytest.mark.parametrize("address", ["", "relative/path", "rest:http://me:secret@host/"])
def test_addresses_that_can_not_be_used_are_refused(
    repository: ResticRepository, folder: Path, address: str
) -> None:
    with pytest.raises(InputError, match=r"address|path|password"):
        ResticChecker(Place(address, repository.options, folder))


def test_a_repository_without_packs_is_refused(folder: Path, tmp_path: Path) -> None:
    parts.program("restic")
    (tmp_path / "password").write_text(PASSWORD)
    repository = ResticRepository(tmp_path / "new", tmp_path, tmp_path / "password")
    repository.call("init")
    with pytest.raises(InputError, match="make a backup first"):
        open_restic(repository, folder).extent()


@contextmanager
def locked(repository: ResticRepository) -> Iterator[None]:
    """Hold restic's lock by a backup that waits for its data."""
    command = [parts.program("restic"), "backup", "--stdin"]
    variables = {
        "RESTIC_REPOSITORY": str(repository.path),
        "RESTIC_PASSWORD_FILE": str(repository.password_file),
    }
    with running(command, env={**os.environ, **variables}, stdin=subprocess.PIPE):
        wait_for(lambda: any((repository.path / "locks").iterdir()))
        yield


def test_a_lock_of_others_does_not_keep_us_from_reading(
    repository: ResticRepository, folder: Path
) -> None:
    with locked(repository):
        assert run(open_restic(repository, folder)).finding is Finding.INTACT


def test_with_locks_wanted_a_lock_of_others_is_never_damage(
    repository: ResticRepository, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restic_repository, "LOCK_WAIT", "1s")
    checker = open_restic(repository, folder, lock="yes")
    sample = sample_all(checker)
    assert run(checker, sample).finding is Finding.INTACT
    with locked(repository):
        report = run(checker, sample)
    assert (report.finding, report.damaged) == (Finding.UNREACHABLE, ())
    assert report.reason == "the repository is locked"


def test_a_backup_during_a_check_succeeds_and_is_no_damage(
    repository: ResticRepository, folder: Path
) -> None:
    backups: list[str] = []

    def back_up(path: str) -> None:
        """Back up between the index that the check read and its listing of packs."""
        if path == "/data/" and checker is not None and not backups:
            backups.append(path)
            (repository.source / "new").write_bytes(os.urandom(100_000))
            repository.back_up()

    checker = None
    with serving(repository.path, "restic", back_up) as server:
        opened = open_restic(repository, folder, f"rest:{server.url}")
        sample = sample_all(opened)
        checker = opened
        report = run(checker, sample)
    assert backups
    assert report.finding is Finding.INTACT, report
    assert report.checked == report.units


def test_a_prune_during_a_check_is_no_damage(
    repository: ResticRepository, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restic_check, "TREE_SECONDS", 0.5)
    before = {pack.name for pack in repository.packs()}
    (repository.source / "file0").unlink()
    repository.back_up()
    repository.call("forget", "latest")
    snapshots = [path.name for path in (repository.path / "snapshots").iterdir()]
    repository.call("forget", *snapshots[:2])
    pruned: set[str] = set()

    def prune(path: str) -> None:
        """Prune between the index that the check read and its listing of packs."""
        if path == "/data/" and checker is not None and not pruned:
            repository.call("prune", "--max-unused", "0")
            pruned.update(before - {pack.name for pack in repository.packs()})

    checker = None
    with serving(repository.path, "restic", prune) as server:
        opened = open_restic(repository, folder, f"rest:{server.url}")
        sample = sample_all(opened)
        checker = opened
        report = run(checker, sample)
    assert pruned
    assert report.damaged == (), report
    assert report.finding is Finding.INTACT
    assert report.checked <= len(repository.packs())


def test_a_server_that_dies_in_mid_check_is_an_outage(
    repository: ResticRepository, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restic_check, "OUTAGE_SECONDS", 2.0)
    reads: list[str] = []

    def die(path: str) -> None:
        """Die when the third pack is read."""
        if checker is not None and path.startswith("/data/") and len(path) > len("/data/"):
            reads.append(path)
            if len(set(reads)) == 6:
                server.cut()

    checker = None
    with serving(repository.path, "restic", die) as server:
        opened = open_restic(repository, folder, f"rest:{server.url}")
        sample = sample_all(opened)
        checker = opened
        report = run(checker, sample)
    assert (report.finding, report.damaged) == (Finding.UNREACHABLE, ()), report
    assert "can't be reached" in report.reason
    assert report.verified == ()


def test_a_server_that_is_away_is_an_outage(
    repository: ResticRepository, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restic_check, "OUTAGE_SECONDS", 2.0)
    monkeypatch.setattr(restic_repository, "LIST_OUTAGE_SECONDS", 2.0)
    with serving(repository.path, "restic") as server:
        checker = open_restic(repository, folder, f"rest:{server.url}")
        sample = sample_all(checker)
    with pytest.raises(UnreachableError, match="can't be reached"):
        checker.extent()
    assert run(checker, sample).finding is Finding.UNREACHABLE


def test_sizes_of_packs_on_a_server_are_estimated_by_its_index(
    repository: ResticRepository, folder: Path
) -> None:
    with serving(repository.path, "restic") as server:
        extent = open_restic(repository, folder, f"rest:{server.url}").extent()
    bytes_there = sum(pack.stat().st_size for pack in repository.packs())
    assert extent.units == len(repository.packs())
    assert 0.7 * bytes_there < extent.bytes < 1.3 * bytes_there


def test_damage_on_a_server_is_found(repository: ResticRepository, folder: Path) -> None:
    with serving(repository.path, "restic") as server:
        checker = open_restic(repository, folder, f"rest:{server.url}")
        sample = sample_all(checker)
        missing, flipped = repository.packs()[:2]
        missing.unlink()
        flip(flipped)
        report = run(checker, sample)
    assert {(unit.name, unit.defect) for unit in report.damaged} == {
        (missing.name, Defect.MISSING),
        (flipped.name, Defect.CHANGED),
    }


@pytest.mark.parametrize("harm", [flip, Path.unlink])
def test_after_repair_the_next_backup_heals(
    repository: ResticRepository, folder: Path, harm: Callable[[Path], None]
) -> None:
    checker, pack = open_restic(repository, folder), repository.data_pack()
    sample = sample_all(checker)
    harm(pack)
    damage = checker.locate(run(checker, sample))
    assert [Path(file).name[:4] for file in damage.files] == ["file"]
    assert damage.commands
    assert damage.loses_data is (harm is flip)
    assert "--force" in damage.advice
    repair = checker.repair(damage)
    assert (repair.repaired, repair.left) == ((pack.name,), ())
    repository.back_up("--force")
    report = run(checker)
    assert report.finding is Finding.INTACT
    assert report.checked == len(repository.packs())


@pytest.mark.parametrize("harm", [flip, Path.unlink])
def test_the_commands_that_are_shown_repair_by_the_letter(
    repository: ResticRepository,
    folder: Path,
    harm: Callable[[Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before, a pack was moved into a folder that did not exist."""
    monkeypatch.setenv("RESTIC_CACHE_DIR", str(repository.path.parent / "cache"))
    folder = folder / "of the holding"
    checker = open_restic(repository, folder)
    sample = sample_all(checker)
    harm(repository.data_pack())
    for command in checker.locate(run(checker, sample)).commands:
        subprocess.run(
            ["/bin/sh", "-c", shlex.join(command)],
            check=True,
            cwd=repository.path.parent,
            stdin=subprocess.DEVNULL,
        )
    repository.back_up("--force")
    assert run(checker).finding is Finding.INTACT


def test_a_repository_over_sftp_is_checked(
    repository: ResticRepository, folder: Path, ssh_command: str
) -> None:
    command = f"{ssh_command} 127.0.0.1 -s sftp"
    checker = open_restic(
        repository, folder, f"sftp:here:{repository.path}", **{"sftp.command": command}
    )
    assert run(checker).finding is Finding.INTACT


def stand_in(path: Path, version: str, program: str) -> str:
    """Write a program that calls itself restic, and is not."""
    lines = (f"#!{sys.executable}", "import os, sys, time", f"RESTIC = {parts.program('restic')!r}")
    asked = f"if sys.argv[1] == 'version': sys.exit(print('restic {version} compiled'))"
    path.write_text("\n".join((*lines, asked, program)) + "\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    "program",
    [
        'print(\'{"message_type": "summary", "num_errors": 0}\')',
        "print('no errors were found')",
        "print('{'); sys.exit(1)",
        "print('Fatal: repository contains errors'); sys.exit(1)",
        "print('read group #1 of 7 data packs (out of total 7 packs in 1 groups)'); sys.exit(1)",
        "sys.stdout.buffer.write(os.urandom(1_000_000)); sys.exit(1)",
        "os.kill(os.getpid(), 9)",
        "pass",
    ],
)
def test_words_that_make_no_sense_are_neither_a_pass_nor_damage(
    repository: ResticRepository, folder: Path, tmp_path: Path, program: str
) -> None:
    sample = sample_all(open_restic(repository, folder))
    fake = stand_in(tmp_path / "fake", "0.18.0", program)
    report = run(open_restic(repository, folder, program=fake), sample)
    assert (report.finding, report.checked, report.verified) == (Finding.UNKNOWN, 0, ())
    assert report.tool == "restic 0.18.0"


def test_a_restic_that_never_ends_is_stopped_before_the_deadline(
    repository: ResticRepository, folder: Path, tmp_path: Path
) -> None:
    groups = sample_all(open_restic(repository, folder)).groups
    fake = stand_in(tmp_path / "fake", "0.18.0", "time.sleep(1000)")
    report = run(open_restic(repository, folder, program=fake), sample_of(*groups, seconds=3))
    assert (report.finding, report.reason) == (Finding.UNKNOWN, "restic did not end in time")


def test_an_upgrade_between_listing_and_check_is_no_trouble(
    repository: ResticRepository, folder: Path, tmp_path: Path
) -> None:
    checker = open_restic(repository, folder, program=str(tmp_path / "restic"))
    (tmp_path / "restic").symlink_to(parts.program("restic"))
    sample = sample_all(checker)
    (tmp_path / "restic").unlink()
    stand_in(tmp_path / "restic", "0.99.1", "os.execv(RESTIC, [RESTIC, *sys.argv[1:]])")
    report = run(open_restic(repository, folder, program=str(tmp_path / "restic")), sample)
    assert (report.finding, report.tool) == (Finding.INTACT, "restic 0.99.1")


def test_no_secret_is_an_argument_or_in_the_words(
    repository: ResticRepository, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = sample_all(open_restic(repository, folder))
    monkeypatch.setenv("BACKUP_PASSWORD", PASSWORD)
    program = "print('arguments', sys.argv); print('Fatal:', dict(os.environ)); sys.exit(1)"
    fake = stand_in(tmp_path / "fake", "0.18.0", program)
    options = {"password_file": "", "password_env": "BACKUP_PASSWORD", "program": fake}
    report = run(open_restic(repository, folder, **options), sample)
    assert PASSWORD not in f"{report.words}{report.reason}"
    assert "'RESTIC_PASSWORD': '***'" in report.words
    real = {"password_file": "", "password_env": "BACKUP_PASSWORD"}
    assert run(open_restic(repository, folder, **real), sample).finding is Finding.INTACT


def test_restic_keeps_the_promises_of_an_auditor(
    repository: ResticRepository, folder: Path, tmp_path: Path
) -> None:
    def damage() -> list[str]:
        flip(repository.data_pack())
        return [repository.data_pack().name]

    @contextmanager
    def away() -> Iterator[None]:
        repository.path.rename(tmp_path / "away")
        yield
        (tmp_path / "away").rename(repository.path)

    place = Place(str(repository.path), repository.options, folder)
    check_auditor(ResticChecker, place, damage, away=away)
