"""sshd on loopback, with keys of its own."""

import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import socket

from tests.support import parts
from tests.support.processes import running

STARTUP_SECONDS = 60.0

CONFIG = """
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
Subsystem sftp internal-sftp
"""


@contextmanager
def ssh_server(folder: Path) -> Iterator[str]:
    """Run sshd, and yield the command that reaches it, without the host."""
    sshd, keygen = (
        parts.program("sshd", "openssh-server"),
        parts.program("ssh-keygen", "openssh-client"),
    )
    for name in ("host", "user"):
        command = [keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "sshd_config").write_text(CONFIG.format(port=port, folder=folder))
    Path("/run/sshd").mkdir(exist_ok=True)  # which Debian's sshd wants
    with running([sshd, "-D", "-e", "-f", folder / "sshd_config"], stderr=subprocess.DEVNULL):
        _wait(port)
        yield shlex.join(
            [
                *("ssh", "-F", "none", "-p", str(port), "-i", str(folder / "user")),
                *("-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no"),
                *("-o", f"UserKnownHostsFile={folder}/known", "-o", "LogLevel=ERROR"),
            ]
        )


def _wait(port: int) -> None:
    give_up = time.monotonic() + STARTUP_SECONDS
    while True:
        with socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < give_up, "sshd does not start"
        time.sleep(0.05)
