"""The operating guide, followed by the letter: every block runs where the guide says it does.

One machine stands for all. Each has folders of its own for `/etc`, `/var/lib` and `/srv`, and an
address of its own on loopback; `systemctl`, `scp` and `hostname` are stand-ins, which start the
very units that we ship. PostgreSQL, anvil, the nodes and the workers are real.
"""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from tests.docs.blocks import blocks_of
from tests.support import parts
from tests.support.ledger_env import anvil
from tests.support.processes import end_with_tests, running

from holdfast.bench import postgres

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "operating.md"
STAND_INS = Path(__file__).with_name("stand_ins")
READY = {"holdfast node": "listens on", "holdfast serve": "auditing the holdings"}
PATIENCE = 120.0  # seconds, for what takes a few on an idle machine
NODES = ("attic", "cellar", "barn")  # and the holdings on them
GOING_ON = 2  # audits of each holding


@dataclass
class Place:
    """Where the guide takes place."""

    folder: Path
    chain: str
    database: postgres.Server
    running: ExitStack
    addresses: dict[str, str] = field(default_factory=dict)
    serving: list[subprocess.Popen[str]] = field(default_factory=list)

    def run(self, machine: str, text: str) -> str:
        """Run a block to its end; what it exports, the machine's next block has."""
        done = subprocess.run(
            self._shell(machine, f"{text}\nexport -p > ~/exported"),
            cwd=self.at(machine) / "home",
            env=self._environment(machine),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"on {machine}:\n{text}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def serve(self, machine: str, text: str) -> None:
        """Start a block that goes on, and wait until it has said that it is ready."""
        said = self.folder / f"said-{len(self.serving)}"
        with said.open("wb") as out:
            started = running(
                self._shell(machine, text),
                cwd=self.at(machine) / "home",
                env=self._environment(machine),
                stdout=out,
                stderr=out,
            )
            process = self.running.enter_context(started)
        self.serving.append(process)
        ready = next(line for start, line in READY.items() if text.startswith(start))

        def told() -> bool:
            assert process.poll() is None, said.read_text()
            return ready in said.read_text()

        wait_for(told)

    def audits(self, machine: str) -> Counter[str]:
        """Return how many audits of each holding the evidence has."""
        shown = json.loads(self.run(machine, "holdfast evidence show --json"))
        audits = [entry for entry in shown["leaves"] if entry["leaf"]["holdfast"] == "audit"]
        return Counter(entry["holding"] for entry in audits)

    def logged_audits(self, machine: str) -> Counter[str]:
        """Return how many audits of each holding the machine's service has logged."""
        lines = (self.at(machine) / "run" / "holdfast.log").read_text().splitlines()
        audited = (json.loads(line) for line in lines if re.search('"audited".*}$', line))
        return Counter(entry["holding"] for entry in audited)

    def reachable(self, machine: str, port: int) -> bool:
        with socket.socket() as client:
            return client.connect_ex((self.address(machine), port)) == 0

    def at(self, machine: str) -> Path:
        """Return the machine's root, with the folders that the guide takes for granted."""
        root = self.folder / machine
        if not root.exists():
            for name in ("home", "etc/holdfast", "etc/systemd/system", "var/lib/holdfast", "srv"):
                (root / name).mkdir(parents=True)
            (root / "home" / "exported").touch()
            for unit in (ROOT / "deploy").glob("*.service"):
                installed = root / "etc/systemd/system" / unit.name
                installed.write_text(self._here(machine, unit.read_text()))
        return root

    def address(self, machine: str) -> str:
        octets = (random.randint(1, 254) for _ in range(3))  # so that two runs differ
        return self.addresses.setdefault(machine, "127.{}.{}.{}".format(*octets))

    def stop(self) -> None:
        groups = [int(file.read_text()) for file in self.folder.glob("*/run/*.pid")]
        for group in [*groups, *(process.pid for process in self.serving)]:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)

    def _shell(self, machine: str, text: str) -> list[str]:
        return ["bash", "-euo", "pipefail", "-c", f". ~/exported\n{self._here(machine, text)}"]

    def _here(self, machine: str, text: str) -> str:
        """Return the text with this machine's folders, and addresses in the place of names."""
        text = re.sub("/(etc|var/lib|srv)/holdfast", rf"{self.folder / machine}\g<0>", text)
        text = text.replace("/opt/holdfast/bin", f"{sys.prefix}/bin")
        own = self.address(machine)
        text = text.replace("127.0.0.1", own).replace("HOST=0.0.0.0", f"HOST={own}")
        text = text.replace("http://chain.example:8545", self.chain)
        audits = self.database.address("audits").replace("holdfast@", "auditor@")
        text = text.replace("postgresql://auditor@db.example/audits", audits)
        return re.sub(r"\b(\w+)\.example\b", lambda found: self.address(found[1]), text)

    def _environment(self, machine: str) -> dict[str, str]:
        paths = [str(STAND_INS), f"{sys.prefix}/bin", str(postgres.BINARIES[0])]
        return {
            "PATH": os.pathsep.join([*paths, os.environ["PATH"]]),
            "HOME": str(self.at(machine) / "home"),
            "LANG": "C.UTF-8",
            "MACHINE": machine,
            "MACHINES": str(self.folder),
            "PGHOST": self.database.socket,
            "PGUSER": "holdfast",
        }


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with anvil() as chain, parts.postgres() as database, ExitStack() as running:
        here = Place(tmp_path, chain, database, running)
        release = end_with_tests(folder=tmp_path)
        try:
            yield here
        finally:
            here.stop()
            release()


@pytest.mark.slow(seconds=100)
@pytest.mark.timeout(900)
def test_whoever_follows_the_guide_has_audits_that_go_on_without_a_worker(place: Place) -> None:
    for block in blocks_of(GUIDE):
        if block.language == "sh" and block.words[-1] == "serving":
            place.serve(block.words[0], block.text)
        elif block.language == "sh":
            for machine in block.words:
                look(place, machine, block.text)
                place.run(machine, block.text)


def look(place: Place, machine: str, text: str) -> None:
    """Do what a person does before the next block: see that the last one has come to something."""
    if "http://attic.example" in text:
        for node in NODES:
            wait_for(partial(place.reachable, node, 8470))
    if "systemctl kill" in text:
        wait_for(lambda: place.logged_audits(machine).total() > 0)
    if "evidence verify" in text and machine == "alpha":
        more = Counter(dict.fromkeys(NODES, GOING_ON))
        enough = place.logged_audits(machine) + more
        wait_for(lambda: place.logged_audits(machine) >= enough)
        wait_for(lambda: place.audits(machine) >= enough)
    elif "evidence verify" in text:
        wait_for(lambda: place.audits(machine).total() > 0)
    elif "audit ask" in text:
        wait_for((place.at(machine) / "home/audits/evidence.pub").exists)


def wait_for(done: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, "what the guide promises does not come"
        time.sleep(0.5)
