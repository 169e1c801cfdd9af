"""Work in a process of its own ends with who wanted it, however that one ends."""

import subprocess
import sys
import time
from multiprocessing.connection import Connection

import pytest
from tests.support.processes import running

from holdfast.web.jobs import run_job

KILLED = """
import os, signal
from tests.web.test_jobs import idle
from holdfast.web.jobs import run_job

if __name__ == "__main__":
    with run_job(idle):
        os.kill(os.getpid(), signal.SIGKILL)
"""
PATIENCE = 60


def idle(_sender: Connection) -> None:
    time.sleep(10 * PATIENCE)


def speak(sender: Connection, word: str) -> None:
    sender.send(word)
    time.sleep(10 * PATIENCE)


def test_it_ends_with_its_context() -> None:
    with run_job(speak, "hello") as receiver:
        assert receiver.recv() == "hello"


@pytest.mark.slow
def test_it_ends_with_who_began_it_even_before_it_has_started() -> None:
    with running([sys.executable, "-c", KILLED], stdout=subprocess.PIPE) as begun:
        told, _ = begun.communicate(timeout=PATIENCE)  # which whoever lives on would hold open
    assert (told, begun.returncode) == ("", -9)
