"""A real sshd on loopback that serves SFTP to one key, for as long as a test runs."""

import getpass
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support import parts
from tests.support.processes import running

PRIVILEGE_SEPARATION = Path("/run/sshd")  # which sshd wants when root starts it


@dataclass(frozen=True)
class SftpServer:
    folder: Path
    host: str
    port: int

    def address(self, path: Path) -> str:
        return f"sftp://{getpass.getuser()}@{self.host}:{self.port}{path}"


@contextmanager
def sftp_server(folder: Path) -> Iterator[SftpServer]:
    """Serve the files of this machine; HOME has the key for it, and knows the server's own."""
    parts.paramiko()
    program = parts.sshd()
    folder.mkdir()
    if os.geteuid() == 0:
        PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
    ssh = folder / "home" / ".ssh"
    ssh.mkdir(parents=True, mode=0o700)
    for key in (folder / "host_key", ssh / "id_ed25519"):
        subprocess.run(
            ["/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True
        )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    public = (folder / "host_key.pub").read_text().split()
    (ssh / "known_hosts").write_text(f"[127.0.0.1]:{port} {public[0]} {public[1]}\n")
    settings = {
        "HostKey": folder / "host_key",
        "AuthorizedKeysFile": ssh / "id_ed25519.pub",
        "PidFile": folder / "pid",
        "ListenAddress": "127.0.0.1",
        "Port": port,
        "StrictModes": "no",
        "PermitRootLogin": "yes",
        "PasswordAuthentication": "no",
        "MaxStartups": "100",
        "Subsystem": "sftp internal-sftp",
    }
    config = folder / "sshd_config"
    config.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    log = folder / "log"
    with running([program, "-D", "-f", config, "-E", log]), pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder / "home"))
        patch.delenv("SSH_AUTH_SOCK", raising=False)
        _wait_until_listening(port, log)
        yield SftpServer(folder, "127.0.0.1", port)


def _wait_until_listening(port: int, log: Path) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError:
            assert time.monotonic() < end, log.read_text() if log.exists() else "no sshd"
            time.sleep(0.05)
        else:
            return
