"""Checks the versions of Python and Holdfast, and the extras that the settings need."""

import platform
from collections.abc import Iterator
from importlib.util import find_spec

import holdfast
from holdfast.control.settings.models import ControlSettings
from holdfast.doctor.finding import Check, fault, ok
from holdfast.owner.settings import Settings

PART = "versions"
EXTRAS = {
    "evm": "web3",
    "plot": "matplotlib",
    "postgres": "psycopg",
    "s3": "s3fs",
    "train": "jax",
}


def check(settings: Settings | None, control: ControlSettings | None) -> Iterator[Check]:
    installed = [extra for extra, module in EXTRAS.items() if find_spec(module) is not None]
    extras = f"with the extras {', '.join(installed)}" if installed else "without extras"
    yield ok(
        PART, f"Holdfast {holdfast.__version__} {extras}, on Python {platform.python_version()}"
    )
    for extra, why in _needed(settings, control).items():
        if extra not in installed:
            message = f"{why} needs the extra {extra}, which is not installed"
            yield fault(PART, message, f"pip install 'holdfast[{extra}]'")


def _needed(settings: Settings | None, control: ControlSettings | None) -> dict[str, str]:
    needed = {}
    if settings is not None and settings.evm is not None:
        needed["evm"] = "the chain in [ledger]"
    if control is not None and "://" in control.database:
        needed["postgres"] = "the database in the settings"
    if control is not None and control.retraining.every is not None:
        needed["train"] = "[control.retraining]"
    return needed
