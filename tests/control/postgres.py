"""A real PostgreSQL server of the tests' own, on a socket in a folder of its own."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


class Server:
    def __init__(self) -> None:
        # A socket's path has at most 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
        self._data = self.folder / "data"
        self._account: dict[str, Any] = {}
        if os.geteuid() == 0:  # as which PostgreSQL refuses to run
            account = pwd.getpwnam("postgres")
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._account = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        self._run("initdb", "-D", str(self._data), "-U", "holdfast", "-A", "trust", "-N")
        self.start()

    @property
    def socket(self) -> str:
        return str(self.folder)

    def address(self, name: str) -> str:
        return f"postgresql://holdfast@/{name}?host={self.socket}"

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses= -c fsync=on -c max_connections=50"
        log = str(self.folder / "log")
        self._run("pg_ctl", "-D", str(self._data), "-w", "-l", log, "-o", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self._data), "-w", "-m", "immediate", "stop")

    def make(self, name: str) -> str:
        self._run("createdb", "-h", self.socket, "-U", "holdfast", name)
        return self.address(name)

    def drop(self, name: str) -> None:
        self._run("dropdb", "-h", self.socket, "-U", "holdfast", "--force", name)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def _run(self, program: str, *arguments: str) -> None:
        path = next((str(each / program) for each in BINARIES if (each / program).exists()), None)
        if path is None:
            pytest.skip("PostgreSQL's server is not installed")
        # `pg_ctl start` leaves a server behind, which would keep a pipe of ours open.
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(
                [path, *arguments],
                stdout=said,
                stderr=said,
                cwd=self.folder,
                check=False,
                timeout=60,
                **self._account,
            )
            said.seek(0)
            assert done.returncode == 0, said.read().decode()
