"""A real node process: killed, stopped, measured; and what it says when it can't run."""

import itertools
import json
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.support.command_line import (
    PASSPHRASE,
    QUICK,
    QuickShell,
    Shell,
    Workplace,
    _workplace,
    end,
    new_key,
)
from tests.support.memory_holding import FILE_ID, tag_in_memory

from holdfast.errors import NodeError
from holdfast.node.client import NodeClient, upload_request
from holdfast.node.identity import (
    NodeKey,
    RequestKey,
    encode_owner,
    read_node_key,
    write_node_key,
)
from holdfast.node.layout import Part
from holdfast.node.objects import open_objects
from holdfast.node.segments import SEGMENT_BYTES, count_segments
from holdfast.node.signature import Head, Signer
from holdfast.node.transport import Transport
from holdfast.node.wire import RepairTarget
from holdfast.pdp import Inventory, SecretKey, draw_challenge, verify_with_key
from holdfast.pdp.readers import Memory

COMMAND = "node serve --store store --key node.key --owner alice.owner --port 0 --json"


class Own:
    """An owner with one file of several segments, and all that is needed to bring it."""

    def __init__(self, segments: float) -> None:
        self.key = SecretKey.generate(128)
        self.content = np.random.default_rng(5).bytes(int(segments * SEGMENT_BYTES))
        header, tags = tag_in_memory(self.key, self.content)
        self.data, self.tags = Memory(self.content), Memory(tags)
        self.empty = Inventory(self.key.public.id, self.key.sectors)
        self.after = self.empty.with_file(header.entry)
        self.request = upload_request(self.data, self.tags)

    @property
    def key_id(self) -> bytes:
        return self.key.public.id

    def segment(self, number: int) -> bytes:
        return self.content[number * SEGMENT_BYTES : (number + 1) * SEGMENT_BYTES]


@dataclass(frozen=True)
class Home:
    """A directory with a node's key, an owner's file and a store."""

    shell: Shell
    owner: RequestKey
    node: NodeKey

    @classmethod
    def make(cls, directory: Path) -> "Home":
        home = cls(QuickShell(directory), RequestKey.generate(), NodeKey.generate())
        write_node_key(directory / "node.key", home.node, PASSPHRASE.encode(), QUICK)
        (directory / "alice.owner").write_bytes(encode_owner(home.owner.owner))
        return home

    @contextmanager
    def running(self, stderr: int = subprocess.DEVNULL) -> Iterator["Process"]:
        with self.shell.start(*COMMAND.split(), stderr=stderr) as process:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            assert said["address"] == self.node.address.hex()
            yield Process(process, said["url"], self)


@dataclass(frozen=True)
class Process:
    """A node in a process of its own."""

    popen: subprocess.Popen[str]
    url: str
    home: Home

    def client(self) -> NodeClient:
        return NodeClient(self.url, self.home.owner, self.home.node.address)

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()

    @contextmanager
    def half_sent(self, own: Own, upload: str, segment: int) -> Iterator[socket.socket]:
        """Send a segment up to its middle, and leave the line open."""
        content = own.segment(segment)
        path = f"/v1/holdings/{own.key_id.hex()}/uploads/{upload}/{Part.DATA}/{segment}"
        request = httpx.Request("PUT", self.url + path, content=content)
        head = Head("PUT", str(request.url), request.headers)
        Signer(self.home.owner, self.home.node.address).sign(head, content, time.time())
        lines = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
        with socket.create_connection((request.url.host, request.url.port or 0)) as line:
            line.sendall(f"PUT {path} HTTP/1.1\r\nExpect: 100-continue\r\n{lines}\r\n".encode())
            assert line.recv(64).startswith(b"HTTP/1.1 100"), "the node has begun to receive"
            line.sendall(content[: len(content) // 2])
            yield line


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.make(tmp_path)


@pytest.fixture(scope="module")
def own() -> Own:
    return Own(2.5)


def drafts(home: Home) -> list[Path]:
    return list((home.shell.directory / "store" / ".drafts").iterdir())


@pytest.mark.slow
def test_an_upload_survives_every_kill(home: Home, own: Own) -> None:
    left = list(range(count_segments(len(own.content))))
    while left:
        with home.running() as process, process.client() as client:
            client.create(own.key.public)
            assert client.inventory(own.key_id) == own.empty, "nothing counts before its commit"
            state = client.begin(own.key_id, own.request)
            assert state.missing.data == left, "what came whole is there, what came half is not"
            assert not drafts(home)
            with process.half_sent(own, state.upload, left[-1]):
                number = left.pop(0)
                client.send(own.key_id, state.upload, Part.DATA, number, own.segment(number))
                process.kill()
            with pytest.raises(NodeError):
                client.holdings()
    with home.running() as process, process.client() as client:
        sent: list[int] = []
        client.upload(
            own.key_id, own.request, own.data, own.tags, own.after.hash, on_progress=sent.append
        )
        assert sent == [own.tags.size()], "no segment is sent twice"
        process.kill()
    with home.running() as process, process.client() as client:
        assert client.inventory(own.key_id) == own.after
        (facts,) = client.holdings()
        assert (facts.files, facts.bytes) == (1, len(own.content)), "nothing is doubled"
        challenge = draw_challenge(own.after, own.after.blocks)
        answer = client.prove(own.key_id, challenge)
        assert verify_with_key(own.key, own.after, challenge, answer.proof)
        assert client.read(own.key_id, FILE_ID, Part.DATA, 0, len(own.content)) == own.content


@pytest.mark.slow
def test_uploads_ask_once_how_the_node_takes_them(
    home: Home, own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    request = Transport.request

    def note(self: Transport, method: str, path: str, **options: Any) -> Any:
        asked.append(path)
        return request(self, method, path, **options)

    monkeypatch.setattr(Transport, "request", note)
    with home.running() as process, process.client() as client:
        client.create(own.key.public)
        for _ in range(2):
            client.upload(own.key_id, own.request, own.data, own.tags, own.after.hash)
    assert asked.count("/v1/node") == 1


@pytest.mark.slow
def test_a_kill_while_blocks_are_replaced_leaves_whole_segments(home: Home, own: Own) -> None:
    size = own.key.layout.block_bytes
    with home.running() as process, process.client() as client:
        client.create(own.key.public)
        client.upload(own.key_id, own.request, own.data, own.tags, own.after.hash)
        target = RepairTarget(FILE_ID, 1, own.after.hash)
        killer = threading.Timer(0.05, process.kill)
        killer.start()
        index = 0
        with suppress(NodeError):
            for index in itertools.count():
                client.replace_blocks(own.key_id, target, [(index, index + 1)], bytes(size))
        killer.join()
    with home.running() as process, process.client() as client:
        content = client.read(own.key_id, FILE_ID, Part.DATA, 0, len(own.content))
        replaced = index * size
        rest = content[replaced + size :]
        assert content[:replaced] == bytes(replaced), "what was answered has happened"
        assert rest == own.content[replaced + size :], "and nothing else"
        assert content[replaced : replaced + size] in (
            bytes(size),
            own.content[replaced : replaced + size],
        )


@pytest.mark.slow
def test_an_upload_takes_bounded_memory(home: Home) -> None:
    large = Own(12)
    with home.running() as process, process.client() as client:
        client.create(large.key.public)
        before = peak_bytes(process)
        client.upload(large.key_id, large.request, large.data, large.tags, large.after.hash)
        client.read(large.key_id, FILE_ID, Part.DATA, 0, 7 * SEGMENT_BYTES)  # in one answer
        assert peak_bytes(process) - before < 6 * SEGMENT_BYTES


def peak_bytes(process: Process) -> int:
    status = Path(f"/proc/{process.popen.pid}/status").read_text()
    match = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert match
    return int(match[1]) * 1024


@pytest.mark.slow
@pytest.mark.parametrize("reason", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_node_ends_what_it_has_begun(
    home: Home, own: Own, reason: signal.Signals
) -> None:
    with home.running(subprocess.PIPE) as process, process.client() as client:
        client.create(own.key.public)
        upload = client.begin(own.key_id, own.request).upload
        with process.half_sent(own, upload, 1):
            pass  # whoever hangs up is no reason for a traceback either
        with process.half_sent(own, upload, 0) as line:
            process.popen.send_signal(reason)
            with suppress(ConnectionError):
                while True:
                    socket.create_connection(line.getpeername()).close()
            line.sendall(own.content[SEGMENT_BYTES // 2 : SEGMENT_BYTES])
            assert line.recv(64).startswith(b"HTTP/1.1 204"), "it was received to its end"
        finished = end(process.popen)
    assert finished.code == 0
    assert finished.stderr.splitlines() == [
        f"holdfast node {home.node.address.hex()} listens on {process.url}"
    ]
    with home.running() as process, process.client() as client:
        assert client.begin(own.key_id, own.request).missing.data == [1, 2]


@pytest.fixture
def workplace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Workplace:
    return _workplace(tmp_path, capsys, monkeypatch)


@pytest.mark.slow
def test_keygen_writes_a_key_that_opens_and_shows_its_address(workplace: Workplace) -> None:
    said = workplace.run("node", "keygen", "--out", "node.key", "--json").data
    path = workplace.directory / "node.key"
    key = read_node_key(path, PASSPHRASE.encode())
    assert said == {"key": "node.key", "address": key.address.hex()}
    assert path.stat().st_mode & 0o777 == 0o600
    assert "exists already" in workplace.run("node", "keygen", "--out", "node.key").sentence()


OWNER = RequestKey(bytes(32)).owner.hex()
SERVE = f"node serve --store store --key node.key --port 0 --owner {OWNER}"
BAD = {
    "no key": (SERVE.replace("node.key", "none.key"), "can't read none.key"),
    "no node's key": (SERVE.replace("node.key", "owner.key"), "is not a Holdfast node-key"),
    "half an owner": (SERVE.replace(OWNER, OWNER[2:]), "an owner's key has 32 bytes"),
    "no owner's file": (SERVE.replace(OWNER, "nobody"), "can't read nobody"),
    "another file as owner": (SERVE.replace(OWNER, "owner.key"), "is not a Holdfast owner"),
    "no port": (SERVE.replace("--port 0", "--port 70000"), "less than or equal to 65535"),
    "half of TLS": (f"{SERVE} --certificate a.pem", "needs both --certificate and --private-key"),
    "no certificate": (f"{SERVE} --certificate a.pem --private-key a.pem", "can't use a.pem"),
    "no host": (f"{SERVE} --host 256.0.0.1", "can't listen on 256.0.0.1"),
    "no such storage": (SERVE.replace("store store", "store nowhere://x"), "can't use nowhere"),
    "no folder of files in place": (f"{SERVE} --data nowhere", "can't read nowhere"),
    "a file as store": (SERVE.replace("store store", "store owner.key"), "owner.key"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_node_that_cannot_run_says_why_in_one_sentence(workplace: Workplace, what: str) -> None:
    new_key(workplace.directory)
    write_node_key(workplace.directory / "node.key", NodeKey.generate(), PASSPHRASE.encode(), QUICK)
    command, why = BAD[what]
    assert why in workplace.run(*command.split()).sentence()


def test_two_nodes_never_share_a_folder(workplace: Workplace) -> None:
    write_node_key(workplace.directory / "node.key", NodeKey.generate(), PASSPHRASE.encode(), QUICK)
    first = open_objects("store")
    first.claim()
    assert "another node runs on store" in workplace.run(*SERVE.split()).sentence()
    first.release()


def test_help_shows_an_example(workplace: Workplace) -> None:
    said = workplace.run("node", "serve", "--help").stdout
    assert "Example: holdfast node serve --store" in said
