"""The checkpoints that come with the package, as `checkpoints/<scenario>/<method>/`."""

from importlib import resources
from pathlib import Path
from typing import NamedTuple

from holdfast.errors import InputError
from holdfast.policy.checkpoint import MANIFEST

ROOT = Path(str(resources.files("holdfast.policy"))) / "checkpoints"


class Shipped(NamedTuple):
    scenario: str
    method: str
    folder: Path


def shipped() -> list[Shipped]:
    folders = sorted(path.parent for path in ROOT.glob(f"*/*/{MANIFEST}"))
    return [Shipped(folder.parent.name, folder.name, folder) for folder in folders]


def shipped_folder(method: str, scenario: str) -> Path:
    """Return the folder of the checkpoint of a method for a scenario."""
    folders = {
        checkpoint.scenario: checkpoint.folder
        for checkpoint in shipped()
        if checkpoint.method == method
    }
    if scenario in folders:
        return folders[scenario]
    if not folders:
        raise InputError(f"no checkpoint of {method} is shipped: train one and name its folder")
    known = ", ".join(f"{method}@{name}" for name in folders)
    raise InputError(
        f"no checkpoint of {method} is shipped for scenario {scenario!r}: there is {known}"
    )
