"""A PostgreSQL server of one's own, from the installed binaries, on a socket in its own folder."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from holdfast.errors import StorageError

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


def installed() -> bool:
    return any((folder / "initdb").exists() for folder in BINARIES)


class Server:
    def __init__(self, folder: Path | None = None) -> None:
        # A socket's path has at most 107 characters.
        self.folder = folder or Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
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

    def make(self, name: str, *, like: str = "template1") -> str:
        """Make a database, empty or as another one is; return its address."""
        self._run("createdb", "-h", self.socket, "-U", "holdfast", "-T", like, name)
        return self.address(name)

    def drop(self, name: str) -> None:
        self._run("dropdb", "-h", self.socket, "-U", "holdfast", "--force", name)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def _run(self, program: str, *arguments: str) -> None:
        path = next(str(folder / program) for folder in BINARIES if (folder / program).exists())
        # `pg_ctl start` leaves a server behind, which would keep a pipe of ours open.
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(  # noqa: S603 - a program of the installed server
                [path, *arguments],
                stdout=said,
                stderr=said,
                cwd=self.folder,
                check=False,
                timeout=600,
                **self._account,
            )
            said.seek(0)
            if done.returncode:
                raise StorageError(f"{program} of PostgreSQL failed: {said.read().decode()}")
