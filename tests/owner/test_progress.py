"""Progress and losses in words."""

import pytest

from holdfast.owner.losses import FileLoss, decode_losses, describe_losses, encode_losses
from holdfast.progress import BlockProgress


@pytest.mark.parametrize(
    ("done", "total", "seconds", "text"),
    [
        (0, 4_329_605, 0.0, "0 of 4,329,605 blocks"),
        (1000, 5000, 2.0, "1,000 of 5,000 blocks, 500 a second, about 8 s left"),
        (10, 100_010, 1.0, "10 of 100,010 blocks, 10 a second, about 3 h left"),
        (5000, 5000, 2.0, "5,000 of 5,000 blocks"),
    ],
)
def test_progress_has_a_rate_and_what_remains(
    done: int, total: int, seconds: float, text: str
) -> None:
    assert BlockProgress(done, total, seconds).describe() == text


def test_a_loss_names_the_file_and_its_bytes() -> None:
    one = FileLoss("photos.tar", 3, ((0, 496), (1488, 2480)))
    many = FileLoss("more.tar", 20, tuple((at, at + 1) for at in range(0, 40, 2)))
    assert one.describe() == "photos.tar, bytes 0 to 495 and 1,488 to 2,479"
    assert many.describe().endswith("12 to 12, 14 to 14 and 12 more ranges")
    assert describe_losses([one, many]).count("bytes") == 2
    assert decode_losses(encode_losses([one, many])) == (one, many)


def test_a_loss_of_very_many_ranges_is_stored_shortened() -> None:
    loss = FileLoss("photos.tar", 3000, tuple((at, at + 1) for at in range(0, 6000, 2)))
    (stored,) = decode_losses(encode_losses([loss]))
    assert (stored.blocks, len(stored.ranges), stored.more) == (3000, 1000, 2000)
    assert stored.describe() == loss.describe()
