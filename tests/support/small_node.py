"""A storage node with segments of 4 KiB, so that small files have several: run by the tests."""

import json
import sys
import time
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


def main(folder: str, key: str, passphrase: str, owner: str, port: str) -> None:
    node_key = read_node_key(Path(key), passphrase.encode())
    owners = {owner: bytes.fromhex(owner)}
    limits = Limits(samples=SAMPLE_CAP)
    store = Store(
        open_objects(folder), owners.values(), limits, time.time, segment_bytes=SEGMENT_BYTES
    )
    gate = Gate(node_key.address, owners, time.time)
    served = RunningNode(Node(node_key, store, gate), "127.0.0.1", int(port))
    time.sleep(max(0.0, gate.opens - time.time()))
    print(json.dumps({"url": served.url, "address": node_key.address.hex()}), flush=True)  # noqa: T201
    served.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
