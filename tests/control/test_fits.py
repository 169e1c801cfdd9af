"""What is learnt from the log is kept beside it."""

from sqlalchemy import Engine
from tests.support.fits import fitted

from holdfast.control.inference.fits import latest_fit, save_fit


def test_the_latest_fit_comes_back_as_it_was_saved(engine: Engine) -> None:
    assert latest_fit(engine) is None
    first, second = fitted(0.1), fitted(0.2)
    save_fit(engine, first, 1)
    save_fit(engine, second, 2)
    assert latest_fit(engine) == second
