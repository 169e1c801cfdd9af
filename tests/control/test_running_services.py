"""Services of one home: a second one is refused, or joins and gets a place of its own."""

import os
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.processes import running

from holdfast.control.running_services import MAX_SERVICES, Place, announce_service
from holdfast.errors import InputError

HOUR = 3_600_000


def test_a_second_service_is_refused_with_host_process_and_start_of_the_first(
    tmp_path: Path,
) -> None:
    with announce_service(tmp_path, HOUR, join=False) as place:
        assert place == Place(0, ())
        with pytest.raises(InputError) as refused, announce_service(tmp_path, 9, join=False):
            pass
    sentence = str(refused.value)
    for part in (f"process {os.getpid()} on {socket.gethostname()}", "1970-01-01 01:00", "--join"):
        assert part in sentence


def test_a_service_that_joins_gets_a_place_of_its_own(tmp_path: Path) -> None:
    with ExitStack() as stack:
        places = [
            stack.enter_context(announce_service(tmp_path, at, join=True))
            for at in range(MAX_SERVICES)
        ]
        assert [place.number for place in places] == list(range(MAX_SERVICES))
        assert [service.since for service in places[2].others] == [0, 1]
        with (
            pytest.raises(InputError, match="run already"),
            announce_service(tmp_path, 9, join=True),
        ):
            pass


def test_a_service_that_joined_outlives_the_first_and_is_named_then(tmp_path: Path) -> None:
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(announce_service(tmp_path, 1, join=False))
        second.enter_context(announce_service(tmp_path, 2 * HOUR, join=True))
        first.close()
        with (
            pytest.raises(InputError, match="since 1970-01-01 02:00"),
            announce_service(tmp_path, 9, join=False),
        ):
            pass
        with announce_service(tmp_path, 9, join=True) as third:
            assert third.number == 0
    with announce_service(tmp_path, 9, join=False) as alone:
        assert alone == Place(0, ())


@pytest.mark.slow
def test_a_service_that_was_killed_is_not_in_the_way(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path;"
        "from holdfast.control.running_services import announce_service\n"
        "with announce_service(Path(sys.argv[1]), 1, join=False): print('runs', flush=True);"
        " time.sleep(60)"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with running(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        with pytest.raises(InputError, match=f"process {process.pid} "):
            announce_service(tmp_path, 9, join=False).__enter__()
        process.kill()
        process.wait()
    with announce_service(tmp_path, 9, join=False) as place:
        assert place == Place(0, ())


def test_of_services_that_start_at_once_one_runs(tmp_path: Path) -> None:
    places, refused = [], []
    all_tried = threading.Barrier(8)

    def start() -> None:
        try:
            with announce_service(tmp_path, 1, join=False) as place:
                places.append(place)
                all_tried.wait(30)
        except InputError as error:
            refused.append(error)
            all_tried.wait(30)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(places), len(refused)) == (1, 7)


def test_only_the_owner_reads_who_runs(tmp_path: Path) -> None:
    with announce_service(tmp_path, 1, join=False):
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"serve.lock": 0o600, "serve-0.lock": 0o600}
