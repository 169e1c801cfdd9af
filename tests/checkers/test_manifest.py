"""Files whose hashes a manifest lists: every form of it is read, and what is wrong is refused."""

import hashlib
import os
import subprocess
from pathlib import Path

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import parts
from tests.support.checks import check, open_at, sample_all, sample_of

from holdfast.checkers.hashed_objects import Expected
from holdfast.checkers.interface import Defect, Finding, Report, Sample
from holdfast.checkers.manifest import ManifestChecker
from holdfast.checkers.manifest_file import parse_manifest
from holdfast.errors import InputError, UnreachableError

# Names that manifests escape, encode, or must be careful with.
NAMES = [
    "plain",
    "with space",
    " *starred",
    "sub/deep/er",
    "back\\slash",
    "new\nline",
    "50%",
    "März",
]
ALGORITHMS = ["md5", "sha1", "sha256", "sha512"]


def digest(algorithm: str, content: bytes) -> str:
    return hashlib.new(algorithm, content).hexdigest()


def open_manifest(address: str | Path, folder: Path, manifest: str | Path) -> ManifestChecker:
    checker = open_at("manifest", address, folder, manifest=str(manifest))
    assert isinstance(checker, ManifestChecker)
    return checker


def run(checker: ManifestChecker, sample: Sample | None = None) -> Report:
    return checker.run(sample or sample_all(checker), lambda _done, _total: None)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    root = tmp_path / "files"
    for name in NAMES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode() * 100)
    return root


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("options", [[], ["--binary"], ["--tag"]])
def test_what_coreutils_write_is_read(
    files: Path, folder: Path, tmp_path: Path, algorithm: str, options: list[str]
) -> None:
    command = [f"{algorithm}sum", *options, *NAMES]
    written = subprocess.run(command, cwd=files, check=True, capture_output=True)
    (tmp_path / "SUMS").write_bytes(written.stdout)
    checker = open_manifest(files, folder, tmp_path / "SUMS")
    extent = checker.extent()
    assert [group.name for group in extent.groups] == sorted(NAMES)
    assert (extent.unit, extent.units, extent.vanished) == ("file", len(NAMES), ())
    assert extent.bytes == sum((files / name).stat().st_size for name in NAMES)
    report = run(checker)
    assert (report.finding, report.checked) == (Finding.INTACT, len(NAMES))
    assert sorted(report.verified) == sorted(NAMES)


@pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha256"])
def test_what_rclone_writes_is_read(
    files: Path, folder: Path, tmp_path: Path, algorithm: str
) -> None:
    (files / "new\nline").unlink()  # rclone can't write it in its list
    command = [parts.program("rclone"), "hashsum", algorithm, str(files)]
    written = subprocess.run(command, check=True, capture_output=True)
    (tmp_path / "SUMS").write_bytes(written.stdout)
    report = run(open_manifest(files, folder, tmp_path / "SUMS"))
    assert (report.finding, report.checked) == (Finding.INTACT, len(NAMES) - 1)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_bag_is_read(folder: Path, tmp_path: Path, algorithm: str) -> None:
    bag = tmp_path / "bag"
    lines = []
    for name in [*NAMES, "100%25"]:
        path = bag / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
        encoded = name.replace("%", "%25").replace("\n", "%0A")
        lines.append(f"{digest(algorithm, name.encode())} data/{encoded}\n")
    manifest = f"manifest-{algorithm}.txt"
    (bag / manifest).write_text("".join(lines))
    (bag / "bagit.txt").write_text("BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n")
    report = run(open_manifest(bag, folder, manifest))
    assert (report.finding, report.checked) == (Finding.INTACT, len(NAMES) + 1)
    assert f"data/{NAMES[5]}" in report.verified


def test_a_manifest_in_a_bucket_is_read(folder: Path, tmp_path: Path) -> None:
    address = f"memory://{tmp_path.name}"
    system = fsspec.filesystem("memory")
    system.pipe_file(f"/{tmp_path.name}/a/b", b"content")
    sums = f"{digest('sha1', b'content').upper()}  ./a//b\r\n".encode()
    system.pipe_file(f"/{tmp_path.name}/SUMS", b"\xef\xbb\xbf# of today\n\n" + sums)
    for manifest in ("SUMS", f"{address}/SUMS"):
        report = run(open_manifest(address, folder, manifest))
        assert (report.finding, report.verified) == (Finding.INTACT, ("a/b",))


def test_damage_is_told_by_its_kind(files: Path, folder: Path, tmp_path: Path) -> None:
    lines = [f"{digest('sha256', (files / name).read_bytes())}  {name}\n" for name in NAMES[:5]]
    (tmp_path / "SUMS").write_text("".join(lines))
    checker = open_manifest(files, folder, tmp_path / "SUMS")
    (files / NAMES[0]).write_bytes(b"other")
    (files / NAMES[1]).write_bytes(b"")
    (files / NAMES[2]).unlink()
    (files / NAMES[3]).unlink()
    (files / NAMES[3]).mkdir()
    assert checker.extent().vanished == tuple(sorted(NAMES[2:4]))
    report = run(checker)
    assert (report.finding, report.checked) == (Finding.DAMAGED, 5)
    assert report.reason == "4 files are damaged"
    assert {unit.name: unit.defect for unit in report.damaged} == {
        NAMES[0]: Defect.CHANGED,
        NAMES[1]: Defect.TRUNCATED,
        NAMES[2]: Defect.MISSING,
        NAMES[3]: Defect.MISSING,
    }
    assert report.verified == (NAMES[4],)
    assert run(checker, sample_of(NAMES[4])).finding is Finding.INTACT


@pytest.mark.slow
def test_files_that_are_away_are_no_damage(files: Path, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "SUMS").write_text(f"{digest('md5', b'x')}  plain\n")
    checker = open_manifest(files, folder, tmp_path / "SUMS")
    sample = sample_all(checker)
    files.rename(tmp_path / "unmounted")
    files.mkdir()
    with pytest.raises(UnreachableError, match="see whether it is mounted"):
        checker.extent()
    report = check(checker, sample)
    assert (report.finding, report.damaged) == (Finding.UNREACHABLE, ())


HASH = "d41d8cd98f00b204e9800998ecf8427e"
OTHER = "0cc175b9c0f1b6a831c399e269772661"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "SUMS lists no file: write it anew"),
        ("# nothing\n\n", "SUMS lists no file: write it anew"),
        (f"{HASH}  a\nhello\n", "line 2 of SUMS is no hash and name"),
        (f"{HASH} a\n", "line 1 of SUMS is no hash and name"),
        (f"{HASH}  \n", "line 1 of SUMS is no hash and name"),
        ("UNSUPPORTED  a\n", "line 1 of SUMS is no hash and name"),
        (f"{HASH[:-1]}  a\n", "line 1 of SUMS has a hash of 31 digits: we know md5, sha1"),
        (f"SHA256 (a) = {HASH}\n", "line 1 of SUMS says sha256, but its hash has .* of md5"),
        (f"{HASH}  /etc/passwd\n", "line 1 of SUMS names '/etc/passwd', which is no path below"),
        (f"{HASH}  a/../../b\n", "line 1 of SUMS names 'a/../../b', which is no path below"),
        (f"{HASH}  ./\n", "line 1 of SUMS names './', which is no path below"),
        (f"{HASH}  a\0b\n", "line 1 of SUMS names .* which is no path below"),
        (f"\\{HASH}  a\\tb\n", "line 1 of SUMS has a backslash that stands for nothing"),
        (f"{HASH}  a\n\n{OTHER}  ./a\n", "lines 1 and 3 of SUMS give two hashes for 'a'"),
    ],
)
def test_a_manifest_that_can_not_be_used_is_refused(content: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_manifest(content.encode(), "SUMS", None)


def test_a_bag_whose_hashes_are_others_than_its_name_says_is_refused() -> None:
    with pytest.raises(InputError, match="line 1 of manifest says sha512, but its hash"):
        parse_manifest(f"{HASH} data/a\n".encode(), "manifest", "sha512")
    with pytest.raises(InputError, match="line 1 of manifest is no hash and path"):
        parse_manifest(b"data/a\n", "manifest", "sha512")


def test_a_line_that_is_repeated_counts_once() -> None:
    assert parse_manifest(f"{HASH}  a\n{HASH} *a\n".encode(), "SUMS", None) == {
        "a": Expected("a", "md5", HASH)
    }


@given(st.binary(max_size=200))
def test_no_content_does_more_than_be_refused(content: bytes) -> None:
    for algorithm in (None, "sha256"):
        try:
            entries = parse_manifest(content, "SUMS", algorithm)
        except InputError as error:
            assert "SUMS" in str(error)  # noqa: PT017 - either is fine
        else:
            assert not [name for name in entries if name.startswith("/") or ".." in name.split("/")]


@pytest.mark.parametrize("manifest", ["", "folder/"])
def test_a_manifest_must_be_named(folder: Path, manifest: str) -> None:
    with pytest.raises(InputError, match="name the manifest"):
        open_manifest("here", folder, manifest)


def test_a_manifest_that_is_not_there_is_refused(files: Path, folder: Path) -> None:
    with pytest.raises(InputError, match=f"there is no manifest {files}/SUMS"):
        open_manifest(files, folder, "SUMS").extent()
    os.truncate(files / "plain", 0)
    with pytest.raises(InputError, match=f"{files}/plain lists no file"):
        open_manifest(files, folder, "plain").extent()


def write_sums(files: Path, sums: Path, names: list[str]) -> None:
    lines = [f"{digest('sha256', (files / name).read_bytes())}  {name}\n" for name in names]
    sums.write_text("".join(lines))


def test_files_below_a_linked_folder_are_read(files: Path, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_bytes(b"content")
    (files / "link").symlink_to(tmp_path / "elsewhere")
    write_sums(files, tmp_path / "SUMS", ["plain", "link/file"])
    checker = open_manifest(files, folder, tmp_path / "SUMS")
    assert checker.extent().vanished == ()
    report = run(checker)
    assert (report.finding, report.checked) == (Finding.INTACT, 2)
    (tmp_path / "elsewhere" / "file").unlink()
    assert checker.extent().vanished == ("link/file",)
    assert [unit.name for unit in run(checker).damaged] == ["link/file"]


def test_a_link_to_itself_hides_no_damage(files: Path, folder: Path, tmp_path: Path) -> None:
    write_sums(files, tmp_path / "SUMS", ["plain", "50%", "sub/deep/er"])
    (files / "other-loop").symlink_to("other-loop")
    (files / "50%").unlink()
    (files / "50%").symlink_to("50%")
    (files / "plain").write_bytes(b"other")
    report = run(open_manifest(files, folder, tmp_path / "SUMS"))
    assert report.finding is Finding.DAMAGED
    assert {unit.name: unit.defect for unit in report.damaged} == {
        "plain": Defect.CHANGED,
        "50%": Defect.MISSING,
    }
