"""The owner's home: one sealed secret, from which all others come, and its settings."""

import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.owner_env import PASSPHRASE, QUICK, World

from holdfast.control.settings.models import read_control
from holdfast.errors import InputError, PassphraseError
from holdfast.node.identity import read_owner
from holdfast.owner import Home, add_holding
from holdfast.owner.keyring import Keyring
from holdfast.owner.settings import EvmSettings, Settings, read_settings
from holdfast.storage.database import connect, migrate

SALTS = (b"\1" * 16, b"\2" * 16)
CONTRACT = "0x" + "ab" * 20


def test_a_home_opens_with_its_passphrase_only(tmp_path: Path) -> None:
    made = Home.create(tmp_path / "home", PASSPHRASE, QUICK)
    assert Home.open(tmp_path / "home", PASSPHRASE) == made
    with pytest.raises(PassphraseError, match="does not open"):
        Home.open(tmp_path / "home", b"another")


def test_a_home_is_its_owners_alone(tmp_path: Path) -> None:
    made = Home.create(tmp_path / "home", PASSPHRASE, QUICK)
    assert stat.S_IMODE(made.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((made.folder / "owner.key").stat().st_mode) == 0o600
    assert made.keyring.root not in (made.folder / "owner.key").read_bytes()
    assert read_owner(str(made.folder / "owner.pub")) == made.keyring.owner


def test_a_home_is_never_replaced(tmp_path: Path) -> None:
    Home.create(tmp_path, PASSPHRASE, QUICK)
    before = (tmp_path / "owner.key").read_bytes()
    with pytest.raises(InputError, match="is an owner's home already"):
        Home.create(tmp_path, PASSPHRASE, QUICK)
    assert (tmp_path / "owner.key").read_bytes() == before


def test_no_two_secrets_are_alike() -> None:
    keyring = Keyring.generate()
    secrets = [keyring.root, keyring.request_key.secret]
    for salt in SALTS:
        secrets += [keyring.audit_key(salt, 2).master, keyring.cipher_secret(salt)]
    assert len(set(secrets)) == 6
    assert keyring.audit_key(SALTS[0], 2) == Keyring(keyring.root).audit_key(SALTS[0], 2)


def test_a_keyring_shows_nothing_of_its_secret() -> None:
    keyring = Keyring.generate()
    assert keyring.root.hex() not in repr(keyring)
    assert repr(keyring.root) not in repr(keyring)


def write(home: Path, text: str) -> Path:
    (home / "holdfast.toml").write_text(text)
    return home


def test_without_settings_the_local_ledger_serves(tmp_path: Path) -> None:
    assert read_settings(tmp_path) == Settings()
    assert read_settings(write(tmp_path, '[ledger]\nkind = "local"\n')) == Settings()


def test_a_chain_is_named_with_its_contract_and_account(tmp_path: Path) -> None:
    text = f'[ledger]\nkind = "evm"\nurl = "http://chain"\ncontract = "{CONTRACT}"\n'
    evm = read_settings(write(tmp_path, text + 'keystore = "account.json"\n')).evm
    contract = bytes.fromhex("ab" * 20)
    assert evm == EvmSettings("http://chain", contract, tmp_path / "account.json", None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ledger", "is not TOML"),
        ("ledger = 5", "ledger is not a table"),
        ("[ledger]\nkind = 5", "local or evm, not 5"),
        ('[ledger]\nkind = "paper"', "local or evm, not 'paper'"),
        ("[other]", "unknown table or key 'other'"),
        ('[ledger]\nurl = "x"', "unknown key 'url'"),
        ('[ledger]\nkind = "evm"\nurl = "x"', "needs the key 'contract'"),
        ('[ledger]\nkind = "evm"\nurl = "x"\ncontract = "zz"\nkeystore = "k"', "hexadecimal"),
        ('[ledger]\nkind = "evm"\nurl = "x"\ncontract = "12"\nkeystore = "k"', "20 bytes"),
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_settings(write(tmp_path, text))


CHAIN = f'[ledger]\nkind = "evm"\nurl = "x"\ncontract = "{CONTRACT}"\nkeystore = "k"\n'


def test_a_home_that_hosts_share_has_its_schedule_in_the_same_database(tmp_path: Path) -> None:
    address = "postgresql://me:hush@host/name"
    write(tmp_path, f'[home]\ndatabase = "{address}"\n{CHAIN}')
    assert read_settings(tmp_path).database == read_control(tmp_path).database == address
    assert "hush" not in repr(read_settings(tmp_path))


def test_the_control_planes_database_is_another_name_for_the_homes(tmp_path: Path) -> None:
    write(tmp_path, '[control]\ndatabase = "own.db"\n')
    assert read_settings(tmp_path).database == read_control(tmp_path).database == "own.db"
    write(tmp_path, '[home]\ndatabase = "own.db"\n[control]\ndatabase = "own.db"\n')
    assert read_settings(tmp_path).database == read_control(tmp_path).database == "own.db"


def read_both(home: Path) -> None:
    read_settings(home)
    read_control(home)


def test_a_home_that_began_with_files_does_not_seem_empty_in_a_database(tmp_path: Path) -> None:
    home = Home.create(tmp_path, PASSPHRASE, QUICK)
    with home.catalogue():
        pass
    shared = replace(home, settings=Settings(database="postgresql://host/name"))
    with pytest.raises(InputError, match="has its database in a file"):
        shared.catalogue()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[home]\nfolder = 1", "unknown key 'folder' in \\[home\\]: there is database"),
        ("[home]\ndatabase = 5", "as in postgresql://"),
        ("[home]\ndatabase = 'mysql://me:hush@host/name'", "as in postgresql://"),
        ("[home]\ndatabase = 'postgresql://me:hush/hush@host/name'", "percent sign"),
        ("[home]\ndatabase = 'postgresql://me:1/hush@host/name'", "percent sign"),
        ("[home]\ndatabase = 'postgresql://me:1?hush@host/name'", "percent sign"),
        ("[home]\ndatabase = 'postgresql://me:hush@host/name'", "name a chain"),
        (
            f"[home]\ndatabase = 'postgresql://host/name'\n{CHAIN}[control]\ndatabase = 'own.db'",
            "a home has one",
        ),
    ],
)
def test_a_home_that_hosts_could_not_share_is_refused(
    tmp_path: Path, text: str, reason: str
) -> None:
    write(tmp_path, text)
    with pytest.raises(InputError, match=reason) as caught:
        read_both(tmp_path)
    assert "hush" not in str(caught.value)


def test_a_holding_is_not_made_where_nobody_listens(tmp_path: Path) -> None:
    home = Home.create(tmp_path, PASSPHRASE, QUICK)
    with pytest.raises(Exception, match="can't reach the node"):
        add_holding(home, "attic", "http://127.0.0.1:1", sectors=2, encrypted=False)
    with home.catalogue() as catalogue:
        assert catalogue.holdings() == []


def readable_by_others(folder: Path) -> set[str]:
    """Return what group or others may read in a folder that they may enter."""
    names = set()
    for path in folder.iterdir():
        if path.stat().st_mode & 0o077:
            names.add(str(path.relative_to(folder)))
            if path.is_dir():
                names |= {f"{path.name}/{inner}" for inner in readable_by_others(path)}
    return names


def test_a_home_in_a_folder_that_others_may_enter_shows_them_nothing(
    tmp_path: Path, world: World
) -> None:
    """Before: catalogue, ledger, schedule and their -wal and -shm files had mode 0644."""
    before = os.umask(0o000)
    try:
        folder = tmp_path / "shared"
        folder.mkdir(mode=0o755)
        home = Home.create(folder, PASSPHRASE, QUICK)
        shutil.copy(world.home.folder / "owner.key", folder / "owner.key")
        world = replace(world, home=Home.open(folder, PASSPHRASE))
        world.add("attic", world.one, encrypted=True, sectors=2)
        world.put("attic", world.file(b"something"))
        engine = connect(read_control(folder).address(folder))
        migrate(engine)
        with (
            engine.connect(),
            home.catalogue() as catalogue,
            catalogue.locked("attic", wait=True),
            home.ledger(2),
        ):
            names = {path.name for path in folder.iterdir()}
            assert {"holdfast.db-wal", "ledger-2.db-shm", "holdfast.db", "attic.lock"} <= names
            assert readable_by_others(folder) == set()
        engine.dispose()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755, "the folder itself is the user's"
    finally:
        os.umask(before)
