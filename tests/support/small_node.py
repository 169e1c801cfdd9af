"""Storage nodes with segments of 4 KiB, so that small files have several: run by the tests.

One process imports what a node needs, and forks a node for each line that it reads.
"""

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

from holdfast.node.identity import read_node_key
from holdfast.node.node import Node
from holdfast.node.objects import open_objects
from holdfast.node.serving import RunningNode
from holdfast.node.signature import Gate
from holdfast.node.store import Store
from holdfast.node.wire import Limits

SEGMENT_BYTES = 4096
SAMPLE_CAP = 100


def main() -> None:
    """Fork a node for each line of arguments; each node prints a line of JSON about itself."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that nobody need wait for a node
    for line in sys.stdin:
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            try:
                serve(*json.loads(line))
            except BaseException:  # noqa: BLE001 - the tests raise it
                _tell({"error": traceback.format_exc()})
            finally:
                os._exit(0)


def serve(folder: str, key: str, passphrase: str, owner: str, port: int) -> None:
    node_key = read_node_key(Path(key), passphrase.encode())
    owners = {owner: bytes.fromhex(owner)}
    limits = Limits(samples=SAMPLE_CAP)
    store = Store(
        open_objects(folder), owners.values(), limits, time.time, segment_bytes=SEGMENT_BYTES
    )
    gate = Gate(node_key.address, owners, time.time)
    gate.opens -= 1  # nobody replays to it what an earlier process took
    served = RunningNode(Node(node_key, store, gate), "127.0.0.1", port)
    _tell({"pid": os.getpid(), "url": served.url, "address": node_key.address.hex()})
    served.run()


def _tell(entry: dict[str, object]) -> None:
    print(json.dumps(entry), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
