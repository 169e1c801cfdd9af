"""The storage of a direct holding serves many threads, also those that come before it is open."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.direct_env import DirectSite

from holdfast.errors import InputError
from holdfast.owner.direct.address import DirectAddress
from holdfast.owner.direct.enrolment import list_enrollable
from holdfast.owner.direct.storage import FOLDERS_AT_ONCE, DirectStorage


def test_many_threads_read_a_folder_that_none_has_opened_yet(folder: DirectSite) -> None:
    storage = DirectStorage(DirectAddress.of(folder.storage.address))
    name = next(name for name, content in folder.contents.items() if content)
    with ThreadPoolExecutor(2 * FOLDERS_AT_ONCE) as pool:
        parts = pool.map(lambda _: storage.read_exactly(name, 0, 1), range(8 * FOLDERS_AT_ONCE))
        assert {*parts} == {folder.contents[name][:1]}


def test_an_empty_folder_asks_one_question(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r": is it mounted\?$"):
        list_enrollable(DirectStorage(DirectAddress(str(tmp_path))))
