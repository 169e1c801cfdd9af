"""The same home with a contract on a real chain for its ledger, by its settings alone."""

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from eth_account import Account
from tests.support.ledger_env import account_of, anvil
from tests.support.owner_env import PASSPHRASE, World, flip
from tests.support.owner_site import Site
from tests.support.single_audit import run_audit

from holdfast.cli.app import run
from holdfast.errors import InputError
from holdfast.evidence.leaf import Outcome
from holdfast.owner import Home

SECTORS = 4
CONTENT = random.Random(2).randbytes(10_000)
DEADLINE_SECONDS = 60


@pytest.fixture
def world(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[World]:
    """Deploy a contract, and yield a home that names it with one file on a node."""
    folder = tmp_path / "home"
    folder.mkdir()
    shutil.copy(site.home / "owner.key", folder)
    sealed = Account.encrypt(account_of(1).key, PASSPHRASE.decode(), kdf="pbkdf2", iterations=1000)
    (folder / "payer.json").write_text(json.dumps(sealed))
    (folder / "passphrase").write_bytes(PASSPHRASE)
    with anvil() as chain:
        line = ["ledger", "deploy", "--chain", chain, "--sectors", str(SECTORS), "--json"]
        keystore = ["--keystore", str(folder / "payer.json")]
        assert run([*line, *keystore, "--passphrase-file", str(folder / "passphrase")]) == 0
        contract = json.loads(capsys.readouterr().out)["contract"]
        settings = {
            "kind": "evm",
            "url": chain,
            "contract": contract,
            "keystore": "payer.json",
            "passphrase_file": "passphrase",
        }
        lines = [f'{name} = "{value}"' for name, value in settings.items()]
        (folder / "holdfast.toml").write_text("\n".join(["[ledger]", *lines]))
        world = World(Home.open(folder, PASSPHRASE), site.one, site.two, tmp_path)
        world.add("attic", site.one, encrypted=False, sectors=SECTORS)
        world.put("attic", world.file(CONTENT))
        yield world


@pytest.mark.slow
def test_an_audit_on_a_chain_passes_until_the_node_loses_something(
    world: World, site: Site
) -> None:
    with world.home.holding("attic") as holding, world.home.ledger(SECTORS) as ledger:
        every = holding.inventory.blocks
        passed = run_audit(ledger, holding, every, deadline_seconds=DEADLINE_SECONDS)
        assert passed.outcome is Outcome.PASSED
        flip(site.one.stored(holding, "data")[0], 5)
        failed = run_audit(ledger, holding, every, deadline_seconds=DEADLINE_SECONDS)
        assert failed.outcome is Outcome.FAILED
        names = [type(event).__name__ for r in ledger.receipts() for event in r.events]
    assert names == ["Registered", "Opened", "Passed", "Opened", "Failed"]


@pytest.mark.slow
def test_a_contract_for_other_holdings_is_told(world: World) -> None:
    with (
        pytest.raises(InputError, match="for 4 sectors a block, not for 16"),
        world.home.ledger(16),
    ):
        pass
