"""A storage node of the demo: `holdfast node serve` as a process of its own, with real files."""

import json
import os
import secrets
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.errors import NodeError
from holdfast.node.identity import NodeKey, write_node_key
from holdfast.pdp.sealing import ScryptCost

# On Linux a process can ask to die with its parent (PR_SET_PDEATHSIG), even if that was killed.
TIED = "import ctypes; ctypes.CDLL(None).prctl(1, 9);" if sys.platform == "linux" else ""
COMMAND = (sys.executable, "-c", f"{TIED}from holdfast.cli import main; main()", "node", "serve")
# Keys that live for a minute need not resist years of guessing; five of them would take 2 s more.
QUICK = ScryptCost(n=2**10)


@dataclass
class StorageNode:
    name: str
    folder: Path
    owner: bytes  # the owner it serves
    url: str = ""
    _passphrase: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    _process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the process, at its old address if it had one; `wait_until_ready` waits for it."""
        self.folder.mkdir(exist_ok=True)
        key = self.folder / "node.key"
        if not key.exists():
            write_node_key(key, NodeKey.generate(), self._passphrase.encode(), QUICK)
        given, written = os.pipe()  # so that the passphrase is in no environment
        os.write(written, self._passphrase.encode())
        os.close(written)
        options = {
            "--store": self.folder / "store",
            "--key": key,
            "--owner": self.owner.hex(),
            "--port": urlsplit(self.url).port or 0,
            "--passphrase-file": f"/dev/fd/{given}",
        }
        arguments = [str(word) for option in options.items() for word in option]
        with (self.folder / "node.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [*COMMAND, *arguments, "--json"],
                pass_fds=[given],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # so that Ctrl-C reaches only us, and we stop it
            )
        os.close(given)

    def wait_until_ready(self) -> None:
        """Wait until it listens."""
        if self._process is None or self._process.stdout is None:
            raise NodeError(f"the node {self.name} was not started")
        line = self._process.stdout.readline()
        if not line:
            log = self.folder / "node.log"
            raise NodeError(f"the node {self.name} did not start: {log.read_text().strip()}")
        self.url = json.loads(line)["url"]

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def data(self) -> Path:
        """Return where its one file is stored, which is shorter than a segment."""
        (path,) = self.folder.glob("store/*/*/*/data.00000000")
        return path
