"""The whole story by commands: two nodes, one of them damaged, detected and repaired."""

import filecmp
import random
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from tests.support.command_line import Shell, served

from holdfast.node.segments import SEGMENT_BYTES

LENGTH = 40 << 20
BLOCK_BYTES = 16 * 31
BLOCKS = LENGTH // BLOCK_BYTES + 1


def damage_a_hundredth(store: Path) -> int:
    """Change a byte in one block of a hundred, as they lie on the node's disk."""
    rng = random.Random(1)
    hit = rng.sample(range(BLOCKS - 1), BLOCKS // 100)
    segments = sorted(store.rglob("data.*"))
    for block in hit:
        number, offset = divmod(block * BLOCK_BYTES + rng.randrange(BLOCK_BYTES), SEGMENT_BYTES)
        with segments[number].open("r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ 1]))
    return len(hit)


@pytest.mark.slow(seconds=10)
def test_damage_on_one_node_is_found_and_mended_from_the_other(
    shell: Shell,
) -> None:
    folder = shell.directory
    (folder / "file").write_bytes(np.random.default_rng(1).bytes(LENGTH))
    owner = shell.run("init", "--json").data["owner"]
    with ExitStack() as nodes:
        for name, options in (("one", []), ("two", ["--encrypt"])):
            url = nodes.enter_context(served(shell, name, owner))
            assert shell.run("holding", "add", name, url, *options).code == 0
        assert shell.run("put", "file").code == 0
        passed = shell.run("audit", "now", "--samples", "460", "--json")
        assert (passed.code, [a["outcome"] for a in passed.data["audits"]]) == (0, ["passed"] * 2)

        damaged = damage_a_hundredth(folder / "one")
        for _ in range(5):  # of a hundred audits of 460 blocks one does not meet it
            failed = shell.run("audit", "now", "one", "--samples", "460", "--json")
            if failed.code:
                break
        assert (failed.code, failed.data["audits"][0]["outcome"]) == (1, "failed")

        repaired = shell.run("repair", "one", "--json")
        (file,) = repaired.data["files"]
        assert (repaired.code, file["damaged"], file["lost"]) == (0, damaged, [])
        assert repaired.data["audit"]["outcome"] == "passed"

        assert shell.run("get", "file", "--from", "one", "--out", "back").code == 0
    assert filecmp.cmp(folder / "file", folder / "back", shallow=False)
