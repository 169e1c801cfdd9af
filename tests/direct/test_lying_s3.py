"""A direct holding on an S3 server whose answers are no part of an object, or shorter than it."""

from collections.abc import Iterator

import pytest
from tests.support.lying_s3 import LyingS3, lying_s3

from holdfast.errors import UnreachableError
from holdfast.owner.direct.address import DirectAddress
from holdfast.owner.direct.storage import DirectStorage


@pytest.fixture
def server() -> Iterator[LyingS3]:
    with lying_s3() as server:
        server.objects = {"a": b"a" * 4000, "b": b"b" * 4000}
        yield server


@pytest.fixture
def storage(server: LyingS3) -> DirectStorage:
    storage = DirectStorage(DirectAddress(server.address))
    assert len(storage.walk()) == 2
    return storage


def test_a_web_page_instead_of_an_object_is_no_loss(
    storage: DirectStorage, server: LyingS3
) -> None:
    server.lies.replaced = {"a"}
    with pytest.raises(UnreachableError, match="what is no part of"):
        storage.read_spans([("a", [(0, 1000)])])
    assert not storage.pop_lost()


@pytest.mark.parametrize("left", [b"a" * 500, b""])
def test_an_object_that_has_become_shorter_is_lost(
    storage: DirectStorage, server: LyingS3, left: bytes
) -> None:
    server.objects["a"] = left
    assert storage.read_spans([("a", [(0, 1000)])]) == [bytes(1000)]
    assert storage.pop_lost() == {"a"}
