"""The storage of a direct holding serves many threads, also those that come before it is open."""

from concurrent.futures import ThreadPoolExecutor

from tests.support.direct_env import DirectSite

from holdfast.owner.direct.address import DirectAddress
from holdfast.owner.direct.storage import FOLDERS_AT_ONCE, DirectStorage


def test_many_threads_read_a_folder_that_none_has_opened_yet(folder: DirectSite) -> None:
    storage = DirectStorage(DirectAddress.of(folder.storage.address))
    name = next(name for name, content in folder.contents.items() if content)
    with ThreadPoolExecutor(2 * FOLDERS_AT_ONCE) as pool:
        parts = pool.map(lambda _: storage.read_exactly(name, 0, 1), range(8 * FOLDERS_AT_ONCE))
        assert {*parts} == {folder.contents[name][:1]}
