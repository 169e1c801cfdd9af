"""A real node takes over the tags of a direct holding, and nothing is tagged again."""

import json
from pathlib import Path

import pytest
from tests.support.command_line import PASSPHRASE, QuickShell
from tests.support.direct_env import NAME, DirectSite, FolderStorage

from holdfast.control.holding_commands import set_url
from holdfast.control.policies.aliases import Author
from holdfast.evidence.leaf import Outcome
from holdfast.node.identity import write_node_key
from holdfast.owner.direct_operations import find_direct
from holdfast.pdp.sealing import ScryptCost

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("beside", [False, True])
def test_a_node_serves_the_same_tags(folder: DirectSite, tmp_path: Path, beside: bool) -> None:
    folder.add(beside=beside)
    assert folder.audit().outcome is Outcome.PASSED
    place = find_direct(folder.home, NAME)
    write_node_key(tmp_path / "node.key", place.key, PASSPHRASE.encode(), ScryptCost(n=16))
    shell = QuickShell(tmp_path)
    options = ("--store", place.tags, "--data", place.data, "--key", "node.key", "--port", "0")
    owner = folder.home.keyring.owner.hex()
    with shell.start("node", "serve", *options, "--owner", owner, "--json") as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        with folder.home.catalogue() as catalogue:
            set_url(catalogue, NAME, url, Author("tests", 0, ""))
        assert folder.audit().outcome is Outcome.PASSED
        assert isinstance(folder.storage, FolderStorage)
        folder.storage.rot("001.jpg", bytes(len(folder.contents["001.jpg"])))
        assert folder.audit().outcome is Outcome.FAILED
