"""A node whose disk is full says so, and nothing else about its machine."""

import os
from pathlib import Path

import pytest
from tests.support.command_line import Workplace
from tests.support.owner_env import SECTORS, World, new_node_key, node_process
from tests.support.small_disk import small_disk

from holdfast.errors import InputError, StorageError
from holdfast.node.objects import LostError
from holdfast.node.storage_errors import DISK_FULL, UNREADABLE, public_message


@pytest.mark.slow
def test_a_full_disk_of_a_node_is_told_from_ones_own_with_the_holding_and_no_path(
    world: World, desk: Workplace, tmp_path: Path
) -> None:
    """Before: "can't write /srv/store/…: No space left on device", as if it were one's own."""
    new_node_key(tmp_path / "small.key")
    owner = world.home.keyring.owner
    with (
        small_disk(tmp_path / "disk"),
        node_process(tmp_path / "disk" / "store", tmp_path / "small.key", owner) as node,
    ):
        world.add("small", node, encrypted=False, sectors=SECTORS)
        large = tmp_path / "large"
        large.write_bytes(os.urandom(6 << 20))
        sentence = desk.run("put", large, "--to", "small").sentence()
    assert sentence == "large could not be put into holding small: the node's disk is full"


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def test_no_path_of_a_node_leaves_it() -> None:
    written = StorageError("can't write /srv/secret/store: …")
    assert public_message(caused(written, OSError(28, "No space left on device"))) == DISK_FULL
    assert public_message(caused(written, OSError(5, "Input/output error"))) == UNREADABLE
    nested = caused(StorageError("can't write /srv/secret"), caused(written, OSError(122, "Quota")))
    assert public_message(nested) == DISK_FULL
    without_cause = StorageError("there is no folder /srv/secret/store")
    assert public_message(without_cause) == UNREADABLE
    assert public_message(LostError("s3://secret/store/x ends before byte 7")) == UNREADABLE
    assert public_message(InputError("no such upload")) == "no such upload"
