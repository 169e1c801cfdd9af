"""A node with a ledger, as its operator starts it: holdings must be on it."""

import pytest
from tests.support.command_line import Shell, served
from tests.support.ledger_env import anvil, sender_of
from web3 import Web3

from holdfast.ledger.evm import deploy
from holdfast.ledger.transactions import Node


@pytest.mark.slow(seconds=10)
def test_a_holding_comes_in_by_its_own_ledger_and_by_no_other(shell: Shell) -> None:
    owner = shell.make_home()
    ledger = shell.directory / "home" / "ledger-16.db"
    with served(shell, "one", owner) as url:  # after which there is a ledger
        assert shell.run("holding", "add", "first", url).code == 0
    with served(shell, "two", owner, "--ledger", str(ledger)) as url:
        assert shell.run("holding", "add", "second", url).code == 0
        wrong = shell.run("holding", "add", "third", url, "--sectors", "4")
        assert "another key for that holding" in wrong.sentence()


@pytest.mark.slow(seconds=10)
def test_a_node_looks_on_a_chain(shell: Shell) -> None:
    owner = shell.make_home()
    with anvil() as chain:
        contract = deploy(sender_of(Web3(Node(chain)), shell.directory), 16).hex()
        options = ["--chain", chain, "--contract", f"0x{contract}"]
        with served(shell, "one", owner, *options) as url:
            assert "does not know" in shell.run("holding", "add", "first", url).sentence()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--chain", "http://127.0.0.1:1"], "give either"),
        (["--chain", "http://127.0.0.1:1", "--contract", "0x5"], "--contract"),
        (["--ledger", "a", "--contract", f"0x{'5' * 40}"], "give either"),
        (["--chain", "http://127.0.0.1:1", "--contract", f"0x{'5' * 40}"], "127.0.0.1:1"),
    ],
)
def test_half_a_ledger_is_refused(shell: Shell, options: list[str], message: str) -> None:
    line = ["--store", "s", "--key", "k", "--owner", "5" * 64, *options]
    assert message in shell.run("node", "serve", *line).sentence()
