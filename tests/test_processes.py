"""A child process ends with its parent, however that one ends."""

import subprocess
import sys
import time
from multiprocessing.connection import Connection

import pytest
from tests.support.processes import run_python, running

from holdfast.processes import start_child

KILLED = """
import os, signal
from tests.test_processes import idle
from holdfast.processes import start_child

if __name__ == "__main__":
    with start_child(idle):
        os.kill(os.getpid(), signal.SIGKILL)
"""
TIMEOUT_SECONDS = 60


def idle(_sender: Connection) -> None:
    time.sleep(10 * TIMEOUT_SECONDS)


def speak(sender: Connection, word: str) -> None:
    sender.send(word)
    time.sleep(10 * TIMEOUT_SECONDS)


def test_it_ends_with_its_context() -> None:
    with start_child(speak, "hello") as child:
        assert child.pipe.recv() == "hello"


@pytest.mark.slow
def test_it_ends_with_who_began_it_even_before_it_has_started() -> None:
    with running([sys.executable, "-c", KILLED], stdout=subprocess.PIPE) as begun:
        output, _ = begun.communicate(timeout=TIMEOUT_SECONDS)  # a survivor would hold it open
    assert (output, begun.returncode) == ("", -9)


KEEP = """
import resource
from holdfast.processes import keep_freed_memory

keep_freed_memory()
for _ in range(2):  # the first one makes room
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        bytes(bytearray(b"x") * (1 << 20))
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_freed_buffers_are_used_again_instead_of_cleared_by_the_kernel() -> None:
    pages = 100 * (1 << 20) // 4096
    assert int(run_python(KEEP)) < pages / 10
