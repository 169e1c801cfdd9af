"""A file that stays where it is, beside the node: only its tags are sent; it is audited there."""

import os

import pytest
from tests.support.command_line import Shell, served


@pytest.mark.slow(seconds=20)
def test_a_sidecar_audits_what_lies_in_storage_that_is_not_ours(shell: Shell) -> None:
    share = shell.directory / "share"
    (share / "photos").mkdir(parents=True)
    kept = share / "photos" / "march.tar"
    kept.write_bytes(os.urandom(100_000))
    owner = shell.make_home()
    with served(shell, "tags", owner, "--data", str(share)) as url:
        for name, more in (("beside", []), ("secret", ["--encrypt"])):
            assert shell.run("holding", "add", name, url, *more).code == 0
        line = ["put", str(kept), "--to", "beside", "--in-place", "photos/march.tar"]
        done = shell.run(*line, "--json")
        assert done.code == 0
        assert 0 < done.data["files"][0]["sent"] < 10_000, "only the tags were sent"
        assert not list((shell.directory / "tags").rglob("data.*"))
        assert shell.run(*line, "--json").data["files"][0]["sent"] == 0
        assert shell.run("audit", "now", "beside").code == 0
        assert shell.run("get", "march.tar", "--out", "back").code == 0
        assert (shell.directory / "back").read_bytes() == kept.read_bytes()

        content = bytearray(kept.read_bytes())
        content[::400] = bytes(len(content[::400]))
        kept.write_bytes(content)
        assert shell.run("audit", "now", "beside").code == 1

        secret = shell.run("put", str(kept), "--to", "secret", "--in-place", "photos/march.tar")
        assert "is encrypted" in secret.sentence()
        away = shell.run("put", str(kept), "--to", "beside", "--name", "b", "--in-place", "../x")
        assert away.sentence()
        two = shell.run("put", "a", "b", "--in-place", "photos/march.tar")
        assert "one by one" in two.sentence()
